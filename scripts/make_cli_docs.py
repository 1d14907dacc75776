"""Writes docs/cli.md: runs the commands of cli_story.py and puts down what they print.

python -m scripts.make_cli_docs
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from frazil.cli.commands import COMMANDS, GROUPS
from frazil.cli.failure import EXIT_CODES
from scripts.cli_story import FILES, STORY, Part

BUG = "this is a bug in frazil"  # printed for unexpected errors
PAGE = Path(__file__).parents[1] / "docs" / "cli.md"
HEAD = """\
# The command line

`frazil` is installed with the package. This page is a transcript: `make cli-docs` runs the commands in an empty folder and writes down what they print, and a test runs them again.

REPO is a folder, a URL (`s3://bucket/prefix`, `gs://bucket/prefix`, `az://container/prefix`, `https://host/path`), or a name that `frazil repo add` gave it; without REPO, commands use the repository chosen by `frazil repo default`, and `@` stands for it where other
arguments follow. COMMIT is a branch, a tag, a snapshot id or its first letters (at least four), or any of these with `~1`; `branch:NAME` and `tag:NAME` tell a branch and a tag of one name apart. `frazil COMMAND -h` shows options and examples.

On a terminal, output is in colour (unless `NO_COLOR` is set), and `log`, `diff` and `tree` use `$FRAZIL_PAGER`, `$PAGER` or `less` when it is longer than the screen. `eval "$(frazil completion bash)"` makes the shell complete commands, options, names of
repositories, branches, tags and paths (zsh and fish likewise).

## Commands
{commands}

## Buckets
Credentials come from the environment, as with the stores' own tools ([object-stores.md](object-stores.md)), or from a file. They are refused on the command line, where other users could see them.

| option | |
|---|---|
| `--region`, `--endpoint-url`, `--anonymous` | the most common settings |
| `--storage-option NAME=VALUE` | any parameter of `frazil.s3_storage`, `gcs_storage`, `azure_storage` that is no secret; may be repeated |
| `--storage-file FILE` | the same as a JSON object, secrets included: `{{"access_key_id": "...", "secret_access_key": "..."}}` |
| `--target-option NAME=VALUE` | `clone` and `migrate`: the same for TARGET, if different |

`frazil repo add era5 s3://bucket/era5 --region eu-west-1` remembers a location with its options, but no secrets. `frazil doctor REPO` checks whether a location can be reached, and what is missing on this machine: Java, Spark, packages.

## With and without Spark
`ingest` and `export` (Zarr, NetCDF) run in the command's own process up to 256 MiB and 200 files (8 if they are remote), and on an embedded Spark beyond that: the plan, the chunks and the commit are the same. `--spark` and `--no-spark` choose. Rows (Parquet, SQL) and the pipelines always use Spark.

Ctrl-C exits with code 130. An interrupted ingest commits nothing; running the same command again reuses the chunks that were written. With `--json`, errors are JSON, too: `{{"error": {{"kind": ..., "message": ..., "hint": ...}}, "exit_code": 1}}` on standard error.

## JSON
`--json` prints one JSON value, with these names in all commands. Times are ISO 8601 in UTC, sizes are in bytes; a count has the name of what is counted. Some commands add names of their own.

| name | |
|---|---|
{words}

## Exit codes
| code | |
|---|---|
{codes}
"""  # noqa: E501 -- lines of a page

JSON_WORDS = {
    "snapshot_id": "the snapshot that is described, or that the command made; null if it made none",
    "parent_id": "its parent; null for the first snapshot",
    "previous_snapshot_id": "the snapshot that a branch or tag pointed to before",
    "removed_snapshot_ids": "snapshots that a branch no longer contains",
    "message": "message of a commit",
    "metadata": "metadata of a commit; in `diff`, changes of groups' and arrays' metadata",
    "written_at": "when a snapshot was written",
    "branch": "name of a branch",
    "branches": "names of branches",
    "tag": "name of a tag",
    "tags": "names of tags",
    "path": "path of a group or array",
    "shape": "shape of an array, or of the part that was read",
    "chunk_shape": "shape of its chunks",
    "dimension_names": "names of its dimensions",
    "data_type": "its data type",
    "attributes": "attributes of a group or array",
    "coords": "coordinates of the values, by dimension",
    "values": "values of an array; in `diff`, how they differ, by path",
    "stored_chunks": "number of chunks that are `native`, `inline`, `virtual`",
    "native": "chunks in objects of their own",
    "inline": "chunks in manifests",
    "virtual": "chunks in files outside of the repository",
    "size_bytes": "size of what is described, written or copied",
    "seconds": "how long it took",
    "snapshots": "number of snapshots",
    "manifests": "number of manifests",
    "references": "number of chunk references",
    "chunks": "number of chunks",
    "objects": "number of objects",
    "files": "number of files",
    "arrays": "number of arrays, or a list of them",
    "copied": "number of objects that were copied",
    "dry_run": "true if nothing was changed",
    "committed": "false if there was nothing to commit",
    "exists": "true if the target existed before",
    "updated": "true if the target has changed",
    "changes": "what a commit changed, as `diff` prints it",
    "new_groups": "paths of new groups",
    "new_arrays": "paths of new arrays",
    "deleted_groups": "paths of deleted groups",
    "deleted_arrays": "paths of deleted arrays",
    "updated_groups": "paths of groups with new attributes",
    "updated_arrays": "paths of arrays with new metadata",
    "updated_chunks": "indexes of changed chunks, by array",
    "moved_nodes": "pairs of paths, old and new",
    "conflicts": "conflicts of a merge: `conflict_type`, `path`, `chunk_indexes`",
    "solved": "false if conflicts remain; then nothing was changed",
    "fast_forward": "true if the branch was only moved",
    "kind": "code of an error, of a problem, or of a reference that remains",
    "file": "a file outside of the repository; in `verify`, one of its own",
    "text": "what the matter is, in words",
    "location": "folder or URL of a repository",
    "generation": "generation of its format, such as V2",
    "spec_version": "version of its format",
    "default": "the default repository, or whether it is this one",
    "value": "value of a setting",
}

type Run = Callable[[str], str]


def installed(folder: Path) -> Run:
    """Runs a line in a shell of its own; what it prints, errors included."""

    def run(line: str) -> str:
        search = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["sh", "-c", line],  # noqa: S607 -- any shell
            cwd=folder,
            env=os.environ
            | {"PATH": search, "FRAZIL_REPOSITORIES": str(folder / ".repositories.json")},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return done.stdout

    return run


def prepare(folder: Path) -> None:
    for name, text in FILES.items():
        (folder / name).write_text(text)


def render(run: Run, parts: Iterable[Part] = STORY) -> str:
    """The transcript: headings, words, and blocks of what was typed and printed."""
    made = list[str]()
    for part in parts:
        if part.title:
            made += [f"## {part.title}"]
        made += [part.text, "", "```console"]
        for line in part.lines:
            made += [f"$ {line}", *run(line).rstrip().splitlines()]
        made += ["```", ""]
    return "\n".join(made)


_CHANGING = (
    (re.compile(r"\b[0-9A-HJKMNP-TV-Z]{20}\b"), "ID"),
    (re.compile(r"\b[0-9A-HJKMNP-TV-Z]{13}\b"), "NODE"),
    (re.compile(r"(?<=[●│┼╯╮─ ] )[0-9A-HJKMNP-TV-Z]{8}\b"), "ID8"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(\+00:00|Z)?"), "TIME"),
    (re.compile(r"\b\d+(\.\d+)? (B|KiB|MiB|MB|s|ms)\b"), "SIZE"),
    (re.compile(r"repo\.\d+\.\w+"), "BACKUP"),
    (re.compile(r"[ \t]+"), " "),  # columns are as wide as what is in them
)


def normalised(page: str) -> str:
    """Without what differs from run to run: ids, times, sizes."""
    for pattern, word in _CHANGING:
        page = pattern.sub(word, page)
    return page


def head() -> str:
    return HEAD.format(
        commands="\n\n".join(
            f"| {title} | |\n|---|---|\n"
            + "\n".join(f"| `{name}` | {COMMANDS[name].summary} |" for name in names)
            for title, names in GROUPS.items()
        ),
        words="\n".join(f"| `{name}` | {meaning} |" for name, meaning in JSON_WORDS.items()),
        codes="\n".join(f"| {code} | {meaning} |" for code, meaning in EXIT_CODES.items()),
    )


def commands_in(page: str) -> list[list[str]]:
    """The words of every line that is typed in the page."""
    typed = re.findall(r"^\$ (frazil .*)$", page, re.MULTILINE)
    return [shlex.split(line)[1:] for line in typed]


def main() -> None:
    with TemporaryDirectory() as made:
        folder = Path(made)
        prepare(folder)
        page = f"{head()}\n{render(installed(folder))}".rstrip() + "\n"
    if BUG in page:
        raise SystemExit(f"a command failed in a way that is a bug; {PAGE.name} stays as it was")
    PAGE.write_text(page.replace(made, ""))


if __name__ == "__main__":
    main()
