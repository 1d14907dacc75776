"""Table of commands: where they are, and what each does in a few words.

A command is loaded when it runs or shows its help: a list of them needs names and words only.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, override

import typer
from typer.core import TyperGroup
from typer.main import get_command

from frazil.cli.repositories import with_storage_options


@dataclass(frozen=True, slots=True)
class Listed:
    """A function of `frazil.cli.<module>`, or the group of commands that is there (`app`)."""

    module: str
    function: str
    summary: str  # of some 57 letters: what a line has room for


def _plain(name: str, summary: str) -> tuple[str, Listed]:
    """Command in the module, and by the name, that its own name suggests."""
    module = name.replace("-", "_")
    return name, Listed(module, module, summary)


COMMANDS: dict[str, Listed] = dict(
    (
        _plain("init", "Make an empty repository."),
        _plain("status", "What a repository is; whether it takes changes."),
        _plain("ls", "List what is in a group."),
        _plain("tree", "Show all groups and arrays."),
        _plain("head", "What an array is, and its first values."),
        _plain("cat", "Print the values of an array."),
        _plain("read", "Write an array, or a part of it, to a file."),
        _plain("write", "Make an array of a file, or extend one."),
        _plain("log", "Show the history of a branch, or draw that of all."),
        _plain("show", "Show one commit: message, metadata, changes."),
        _plain("diff", "Show what changed between two commits."),
        _plain("sql", "Query with Spark SQL: once, or at a prompt."),
        _plain("ingest", "Turn NetCDF, Zarr, GRIB, TIFF, Parquet into a commit."),
        _plain("import-kerchunk", "Make virtual arrays of kerchunk references."),
        _plain("rechunk", "Write arrays with other chunks, codecs or shards."),
        _plain("reduce", "Mean, sum, maximum and others over dimensions."),
        _plain("map-blocks", "Apply a function of your own to blocks of arrays."),
        _plain("export", "To Zarr, Parquet, NetCDF, or one bundle file."),
        _plain("clone", "Copy a repository, or bring a copy up to date."),
        ("import", Listed("import_bundle", "import_", "Bring a bundle into a repository.")),
        _plain("migrate", "Bring an older repository to version 2."),
        ("branch", Listed("branch", "app", "List, create and delete branches.")),
        ("tag", Listed("tag", "app", "List, create and delete tags.")),
        _plain("merge", "Bring what was done on one branch to another."),
        _plain("cherry-pick", "Do on a branch what a commit did elsewhere."),
        _plain("revert", "Undo what a commit did, by a new commit."),
        _plain("reset", "Put a branch at another commit."),
        _plain("squash", "Make a range of history one commit."),
        _plain("ops", "Everything that was ever done to a repository."),
        _plain("stats", "How many bytes are stored, and for whom."),
        _plain("expire", "Take old snapshots out of history."),
        _plain("gc", "Delete files that are not reachable from a branch or tag."),
        _plain("verify", "Check every file; repair what can be."),
        _plain("pack", "Put small chunk objects together."),
        _plain("unpack", "Give packed chunks objects of their own again."),
        _plain("rewrite-manifests", "Split manifests differently."),
        _plain("purge", "Take a path, or messages, out of all history."),
        ("config", Listed("config", "app", "Show and change the settings a repository stores.")),
        ("metadata", Listed("metadata", "app", "Show and change a repository's metadata.")),
        ("flags", Listed("flags", "app", "Show and switch what may be done to a repository.")),
        _plain("serve", "Look at a repository in the browser."),
        _plain("dump", "Show any metadata file as JSON."),
        _plain("doctor", "Check Java, Spark, packages and storage."),
        _plain("completion", "Print what makes a shell complete commands."),
    )
)
WITH_TARGET = {"clone", "migrate"}  # to a place that may be reached in another way
WITHOUT_PLACE = {"completion"}


# Examples of commands, shown at the end of each command's help.
#
# Here rather than beside the commands, so that they read as one story: a repository of weather
# data.

EXAMPLES: dict[str, tuple[str, ...]] = {
    # first steps
    "init": ("frazil init weather", "frazil init s3://bucket/weather --region eu-west-1"),
    "status": (
        "frazil status weather",
        "frazil status weather --set read-only --reason 'moving house'",
    ),
    "ls": ("frazil ls weather", "frazil ls weather /model --tag v1"),
    "tree": ("frazil tree weather", "frazil tree s3://bucket/weather --anonymous --depth 2"),
    "head": ("frazil head weather /model/t2m",),
    "cat": (
        "frazil cat weather /model/t2m --isel time=0",
        "frazil cat weather /model/t2m --sel time=2024-01-01..2024-01-02 --sel lat=60",
    ),
    "read": (
        "frazil read weather /model/t2m -o t2m.npy",
        "frazil read weather /model/t2m --sel lat=40..60 -o rows.parquet",
    ),
    "write": (
        "frazil write weather /model/t2m t2m.npy --dims time,lat --chunks time=24",
        "frazil write weather /model/t2m more.npy --append time -m 'February'",
    ),
    "log": ("frazil log weather -n 10", "frazil log weather --graph"),
    "show": ("frazil show weather", "frazil show weather main~1 --json"),
    "diff": ("frazil diff weather v1 main", "frazil diff weather main~1 main --json"),
    "sql": (
        'frazil sql weather "SELECT avg(t2m) FROM repo WHERE lat > 60"',
        "frazil sql weather                # a prompt: statements end with ;",
    ),
    # files in, arrays out
    "ingest": (
        "frazil ingest 'data/*.nc' weather --concat-dim time --chunks time=24 -m January",
        "frazil ingest 's3://archive/*.nc' weather --concat-dim time --virtual",
    ),
    "import-kerchunk": ("frazil import-kerchunk weather refs.json --files-in /data",),
    "rechunk": ("frazil rechunk weather /model/t2m --chunks time=1000,lat=10",),
    "reduce": ("frazil reduce weather t2m --over time --how mean --group /model",),
    "map-blocks": (
        "frazil map-blocks weather steps.py:to_celsius /model/t2m --output /model/t2m_c=float32",
    ),
    "export": (
        "frazil export weather weather.zarr",
        "frazil export weather weather.bundle --ref main",
    ),
    "clone": (
        "frazil clone weather copy",
        "frazil clone weather s3://bucket/weather --endpoint-url http://127.0.0.1:9000",
    ),
    "import": ("frazil import weather.bundle elsewhere",),
    "migrate": ("frazil migrate weather --dry-run", "frazil migrate weather --yes"),
    # history
    "branch list": ("frazil branch list weather",),
    "branch create": ("frazil branch create weather fix --from v1",),
    "branch delete": ("frazil branch delete weather fix",),
    "tag list": ("frazil tag list weather",),
    "tag create": ("frazil tag create weather v1 --at main~1",),
    "tag delete": ("frazil tag delete weather v1 --yes",),
    "merge": ("frazil merge weather fix --into main", "frazil merge weather fix --dry-run"),
    "cherry-pick": ("frazil cherry-pick weather fix --branch main",),
    "revert": ("frazil revert weather main~1",),
    "reset": ("frazil reset weather v1 --dry-run", "frazil reset weather v1 --yes"),
    "squash": ("frazil squash weather main~5 -m 'All of January' --yes",),
    "ops": ("frazil ops weather -n 20",),
    # upkeep
    "stats": ("frazil stats weather",),
    "expire": ("frazil expire weather --older-than 90d --retain-last 10 --dry-run",),
    "gc": ("frazil gc weather --older-than 7d --dry-run", "frazil gc weather --yes"),
    "verify": ("frazil verify weather", "frazil verify weather --repair --dry-run"),
    "pack": ("frazil pack weather --small 500K",),
    "unpack": ("frazil unpack weather /model/t2m",),
    "rewrite-manifests": ("frazil rewrite-manifests weather --split time=1000",),
    "purge": ("frazil purge weather /secret --dry-run",),
    # settings
    "config show": ("frazil config show weather",),
    "config get": ("frazil config get weather caching.num_bytes_chunks",),
    "config set": (
        "frazil config set weather inline_chunk_threshold_bytes 1024",
        "frazil config set weather compression.level default",
    ),
    "metadata show": ("frazil metadata show weather",),
    "metadata set": ("frazil metadata set weather owner 'the weather office'",),
    "metadata unset": ("frazil metadata unset weather owner",),
    "flags list": ("frazil flags list weather",),
    "flags set": ("frazil flags set weather delete_tag off",),
    # tools
    "serve": ("frazil serve weather", "frazil serve s3://bucket/weather --anonymous"),
    "dump": ("frazil dump weather/repo", "frazil dump s3://bucket/weather/repo --full"),
    "doctor": ("frazil doctor", "frazil doctor s3://bucket/weather"),
    "completion": ('eval "$(frazil completion bash)"', "frazil completion zsh > ~/.zfunc/_frazil"),
}


def epilog(command: str) -> str | None:
    """The end of a command's help; lines stay as they are."""
    lines = EXAMPLES.get(command)
    if lines is None:
        return None
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


# Commands that are loaded on first use, so that `frazil --help` is fast.

# plain help: rich alone would double the time to show it
PLAIN: dict[str, Any] = {
    "add_completion": False,
    "pretty_exceptions_enable": False,
    "rich_markup_mode": None,
}


def load(name: str) -> Any:
    """A command as typer's click has it, with examples and the options of storage."""
    listed = COMMANDS[name]
    found = getattr(import_module(f"frazil.cli.{listed.module}"), listed.function)
    if isinstance(found, typer.Typer):
        return _load_group(name, found)
    if name not in WITHOUT_PLACE:
        found = with_storage_options(found, target=name in WITH_TARGET)
    alone = typer.Typer(**PLAIN)
    alone.command(name, short_help=listed.summary, epilog=epilog(name))(found)
    return get_command(alone)


def _load_group(name: str, group: typer.Typer) -> Any:
    whole = typer.Typer(help=group.info.help, no_args_is_help=True, **PLAIN)
    for each in group.registered_commands:
        if each.callback is not None and each.name is not None:
            whole.command(each.name, epilog=epilog(f"{name} {each.name}"))(
                with_storage_options(each.callback)
            )
    made = get_command(whole)
    made.name = name
    return made


class Commands(Mapping[str, Any]):
    """All there are, by name; each is made when it is asked for, once."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in COMMANDS:
            raise KeyError(name)
        if name not in self._made:
            self._made[name] = load(name)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class LoadingGroup(TyperGroup):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.commands: Any = Commands()

    @override
    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    @override
    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return self.commands.get(cmd_name)

    @override
    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, each.summary) for name, each in COMMANDS.items()])
