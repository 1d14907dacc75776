"""One call or two of every command, in copies of one folder, and what they show.

python -m tests.cli.transcripts        writes transcripts.txt: look at what has changed in it
"""

import json
import os
import pty
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock
from urllib.request import urlopen

import numpy as np
import zarr

import frazil as frazil_api
from scripts.make_cli_docs import normalised
from tests.cli.days import write_day
from tests.cli.running import COMMAND, frazil, read_or_end

RECORDED = Path(__file__).with_name("transcripts.txt")
WIDTH, HEIGHT = 120, 60
# The last line is that of the command, those before it make what it needs; HERE is the folder.
LINES: dict[str, tuple[str, ...]] = {
    # look at data
    "ls": ("ls weather",),
    "tree": ("tree weather",),
    "head": ("head weather /t2m",),
    "cat": ("cat weather /t2m --isel time=0:2",),
    "read": ("read weather /t2m -o t2m.csv",),
    "serve": ("serve weather --port 0",),
    "sql": ("sql weather 'SELECT lat, count(*) AS hours FROM repo GROUP BY lat ORDER BY lat'",),
    # data in, data out
    "init": ("init new",),
    "ingest": ("ingest day0.nc weather --group /day",),
    "import-kerchunk": ("import-kerchunk weather refs.json --root HERE --files-in HERE",),
    "write": ("write weather /extra values.csv --dims place -m more",),
    "export": ("export weather weather.zarr",),
    "import": ("import weather.bundle elsewhere",),
    "clone": ("clone weather copy",),
    # compute
    "rechunk": ("rechunk weather /t2m --chunks time=12",),
    "reduce": ("reduce weather t2m --over lat --into /mean",),
    "map-blocks": ("map-blocks weather steps.py:twice /t2m --output /twice=float64",),
    # history
    "log": ("log weather --graph", "log weather"),
    "show": ("show weather v1",),
    "diff": ("diff weather fix main",),
    "branch list": ("branch list weather",),
    "branch create": ("branch create weather later v1",),
    "branch delete": ("branch delete weather fix --yes",),
    "tag list": ("tag list weather",),
    "tag create": ("tag create weather v2",),
    "tag delete": ("tag delete weather v1 --yes",),
    "merge": ("merge weather fix",),
    "cherry-pick": ("cherry-pick weather fix",),
    "revert": ("revert weather main",),
    "reset": ("reset weather v1 --yes",),
    "squash": ("squash weather main~1 -m all --yes",),
    "ops": ("ops weather",),
    # maintenance
    "status": ("status weather --set read-only --reason moving",),
    "stats": ("stats weather",),
    "verify": ("verify weather",),
    "expire": ("tag delete weather v1 --yes", "expire weather --older-than 0s --yes"),
    "gc": ("branch delete weather fix --yes", "gc weather --older-than 0s --safety-age 0 --yes"),
    "pack": ("pack weather",),
    "unpack": ("pack weather", "unpack weather"),
    "rewrite-manifests": ("rewrite-manifests weather --split time=1",),
    "purge": ("purge weather /t2m --yes",),
    "migrate": ("migrate old --yes",),
    # settings
    "config show": ("config show weather",),
    "config get": ("config get weather inline_chunk_threshold_bytes",),
    "config set": ("config set weather inline_chunk_threshold_bytes 64",),
    "metadata show": ("metadata set weather owner office", "metadata show weather"),
    "metadata set": ("metadata set weather owner office",),
    "metadata unset": ("metadata set weather owner office", "metadata unset weather owner"),
    "flags list": ("flags list weather",),
    "flags set": ("flags set weather delete_tag off",),
    # tools
    "repo list": ("repo add here weather", "repo list"),
    "repo add": ("repo add here weather --default",),
    "repo remove": ("repo add here weather", "repo remove here"),
    "repo default": ("repo add here weather", "repo default here"),
    "doctor": ("doctor weather",),
    "dump": ("init new", "dump new/repo"),
    "spark jar": ("spark jar",),
    "spark conf": ("spark conf",),
    "completion": ("completion bash",),
    "help": ("help exit-codes",),
}
ON_SPARK = {"sql", "rechunk", "reduce", "map-blocks", "spark jar", "spark conf"}
# What is installed here, and where.
_HERE = (
    (re.compile(r"(?m)^(?:ok|-) ((?:its |temporary )?\S+) .*"), r"ok \1 ..."),  # of `doctor`
    (re.compile(r"\d:\d\d:\d\d"), "ELAPSED"),
    (re.compile(r"/\S+/frazil-spark-\S+\.jar"), "JAR"),
    (re.compile(r"127\.0\.0\.1:\d+"), "127.0.0.1:PORT"),
)


@dataclass(frozen=True, slots=True)
class World:
    """A folder to work in, which is copied for each command."""

    folder: Path

    @contextmanager
    def copied(self) -> Iterator[Path]:
        with TemporaryDirectory() as made:
            copy = Path(made).resolve() / "here"
            shutil.copytree(self.folder, copy)
            named = {"FRAZIL_REPOSITORIES": str(copy / ".repositories.json")}
            with chdir(copy), mock.patch.dict(os.environ, named):
                yield copy


def make_world(folder: Path) -> World:
    """Two days of weather, a branch, a tag; an older repository, a bundle, and files."""
    repo = frazil_api.Repository.create(
        frazil_api.local_filesystem_storage(str(folder / "weather"))
    )
    values = np.random.default_rng(1).normal(size=(48, 4)).round(2)
    with repo.transaction("main", message="the first day") as store:
        for name, along in (("lat", [40.0, 50.0, 60.0, 70.0]), ("time", list(range(24)))):
            made = zarr.create_array(
                store, name=name, data=np.array(along, "f8"), dimension_names=[name]
            )
            units = "degrees_north" if name == "lat" else "hours since 2024-01-01"
            made.attrs.update({"standard_name": name.replace("lat", "latitude"), "units": units})
        zarr.create_array(
            store,
            name="t2m",
            data=values[:24],
            chunks=(24, 4),
            dimension_names=["time", "lat"],
            compressors=None,
        )
    repo.create_tag("v1", repo.lookup_branch("main"))
    repo.create_branch("fix", repo.lookup_branch("main"))
    with repo.transaction("main", message="the second day") as store:
        zarr.open_array(store, path="time").append(np.arange(24.0, 48.0))
        zarr.open_array(store, path="t2m").append(values[24:], axis=0)
    with repo.transaction("fix", message="where it was") as store:
        zarr.create_array(store, name="place", data=np.arange(4), dimension_names=["place"])
    shutil.copytree(folder / "weather", folder / "damaged")
    next((folder / "damaged" / "chunks").iterdir()).unlink()
    shutil.copytree(folder / "weather", folder / "clash")
    clash = frazil_api.Repository.open(frazil_api.local_filesystem_storage(str(folder / "clash")))
    for branch in ("main", "fix"):
        with clash.transaction(branch, message="a value") as store:
            zarr.open_array(store, path="t2m")[0, 0] = len(branch)
    with chdir(folder):
        for line in ("init old --spec-version 1", "export weather weather.bundle"):
            assert frazil(*line.split()).code == 0
    write_day(folder, 0)
    (folder / "bad.nc").write_bytes(b"rubbish")
    (folder / "values.csv").write_text("1\n2\n3\n")
    (folder / "steps.py").write_text("def twice(values):\n    return 2 * values\n")
    (folder / "values.bin").write_bytes(np.arange(4.0).tobytes())
    array = {
        "shape": [4], "chunks": [2], "dtype": "<f8", "fill_value": 0, "order": "C",
        "filters": None, "compressor": None, "zarr_format": 2,
    }  # fmt: skip
    refs = {".zgroup": {"zarr_format": 2}, "a/.zarray": array}
    chunks = {f"a/{row}": ["values.bin", 16 * row, 16] for row in range(2)}
    (folder / "refs.json").write_text(json.dumps({"version": 1, "refs": refs | chunks}))
    return World(folder)


def record(name: str, world: World, *, terminal: bool) -> str:
    """What the lines of a command show, with the terminal's effects carried out."""
    shown = list[str]()
    with world.copied() as folder:
        for line in LINES[name]:
            words = shlex.split(line.replace("HERE", str(folder)))
            if terminal or name == "serve":
                text = run(words, terminal=terminal)
            else:
                answer = frazil(*words)
                text = answer.out + answer.err
                text += f"(exit code {answer.code})\n" if answer.code else ""
            text = text.replace(str(folder), "/here").replace(str(folder.parent), "/there")
            text = normalised(text)
            for pattern, word in _HERE:
                text = pattern.sub(word, text)
            text = "\n".join(part.rstrip() for part in text.splitlines())
            shown.append(f"$ frazil {line}\n{text}".rstrip())
    return "\n".join(shown) + "\n"


def run(words: Sequence[str], *, terminal: bool) -> str:
    """The installed command, on a terminal or with pipes; what runs forever gets a control-C."""
    ours, theirs = pty.openpty() if terminal else os.pipe()
    size = {"COLUMNS": str(WIDTH), "LINES": str(HEIGHT), "TERM": "xterm", "PAGER": "cat"}
    shown = b""
    with subprocess.Popen(
        [COMMAND, *words],
        stdin=theirs if terminal else subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        env=os.environ | size,
    ) as running:
        os.close(theirs)
        while part := read_or_end(ours):
            shown += part
            if url := re.search(rb"(http\S+) \(Ctrl-C stops\)\s", shown):
                urlopen(url[1].decode(), timeout=60).close()  # noqa: S310 -- has it started?
                running.send_signal(signal.SIGINT)
    os.close(ours)
    text = Screen(shown.decode()).text() if terminal else shown.decode()
    return text + (f"(exit code {running.returncode})\n" if running.returncode else "")


class Screen:
    """The lines on a terminal after some output, without colours."""

    EFFECT = re.compile(r"\x1b\[(?P<count>[0-9;?]*)(?P<code>[A-Za-z])|(?P<other>[\r\n])")

    def __init__(self, shown: str) -> None:
        self.lines, self.row, self.column = [""], 0, 0
        position = 0
        for effect in self.EFFECT.finditer(shown):
            self._write(shown[position : effect.start()])
            position = effect.end()
            self._apply(effect)
        self._write(shown[position:])

    def _write(self, text: str) -> None:
        line = self.lines[self.row].ljust(self.column)
        self.lines[self.row] = line[: self.column] + text + line[self.column + len(text) :]
        self.column += len(text)

    def _apply(self, effect: re.Match[str]) -> None:
        match effect["other"] or effect["code"]:
            case "\r":
                self.column = 0
            case "\n":
                self.row += 1
                self.lines += [""] * (self.row + 1 - len(self.lines))
            case "A":
                self.row = max(0, self.row - int(effect["count"] or 1))
            case "K":
                whole = effect["count"] == "2"
                self.lines[self.row] = "" if whole else self.lines[self.row][: self.column]
            case "m" | "h" | "l":
                pass
            case other:
                raise AssertionError(f"an effect that the test does not know: {other!r}")

    def text(self) -> str:
        return "".join(f"{line.rstrip()}\n" for line in self.lines).rstrip() + "\n"


# The recorded transcripts: of each command what it shows with pipes, and what on a terminal, if
# that is something else.
_ELSEWHERE = "--- on a terminal\n"


def write_recorded(shown: dict[str, tuple[str, str]]) -> None:
    parts = list[str]()
    for name, (plain, on_terminal) in shown.items():
        parts.append(f"=== {name}\n{plain}")
        if on_terminal != plain:
            parts.append(f"{_ELSEWHERE}{on_terminal}")
    RECORDED.write_text("".join(parts))


def read_recorded() -> dict[str, tuple[str, str]]:
    shown = dict[str, tuple[str, str]]()
    for part in re.split(r"(?m)^=== ", RECORDED.read_text())[1:]:
        name, _, text = part.partition("\n")
        plain, _, on_terminal = text.partition(_ELSEWHERE)
        shown[name] = plain, on_terminal or plain
    return shown


def main() -> None:
    with TemporaryDirectory() as folder:
        world = make_world(Path(folder))
        write_recorded(
            {
                name: (record(name, world, terminal=False), record(name, world, terminal=True))
                for name in (sys.argv[1:] or LINES)
            }
        )


if __name__ == "__main__":
    main()
