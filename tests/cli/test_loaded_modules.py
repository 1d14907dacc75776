"""The modules that commands load: what makes them quick, and unlike a time always the same."""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Example
from tests.cli.days import write_day
from tests.cli.running import frazil, read_or_end, succeeds

RUN = (
    "import sys\n"
    "from frazil.cli.main import main\n"
    "try:\n"
    "    main()\n"
    "finally:\n"
    "    print(*sys.modules, file=sys.stderr)\n"
)
HELP = frozenset({"annotated_doc", "click", "frazil", "shellingham", "typer"})  # click: older typer
READ = HELP | {"msgpack", "numpy", "zstandard"}
OF_PYTHON = {*sys.stdlib_module_names, "sitecustomize", "cython_runtime"}
# Of each line the packages, and the greatest number of frazil's own modules.
LOADED: dict[str, tuple[frozenset[str], int]] = {
    "--help": (HELP, 11),
    "log --help": (HELP, 13),
    "ingest --help": (HELP, 14),
    "log REPO": (READ, 108),
    "log REPO -n 2 --branch main": (READ, 108),
    "log REPO --graph": (READ, 110),
    "log REPO --json": (READ, 108),
    "tree REPO": (READ, 109),
    "tree REPO /model --depth 1": (READ, 109),
    "ls REPO": (READ, 109),
    "branch list REPO": (READ, 108),
}
UNWANTED = (
    *("frazil.api", "frazil.zarrstore", "frazil.spark", "frazil.web", "frazil.maintenance"),
    *("frazil.objectstore.remote.", "frazil.objectstore.archive", "frazil.engine.merge."),
    *("frazil.engine.history.", "frazil.engine.commit.commit"),
    *("asyncio", "html", "http", "email", "ssl", "importlib.metadata"),
)


def loaded_by(*arguments: str, stdout: int) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", RUN, *arguments],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        check=True,
        stdin=subprocess.DEVNULL,
        env=os.environ | {"COLUMNS": "120", "LINES": "50"},
    )
    return set(done.stderr.split())


@pytest.mark.parametrize("line", LOADED)
@pytest.mark.parametrize("on_a_terminal", [False, True])
def test_a_command_loads_what_it_uses(example: Example, line: str, *, on_a_terminal: bool) -> None:
    packages, most = LOADED[line]
    ours, theirs = pty.openpty()
    try:
        modules = loaded_by(
            *line.replace("REPO", str(example.path)).split(),
            stdout=theirs if on_a_terminal else subprocess.DEVNULL,
        )
    finally:
        os.close(theirs)
        os.close(ours)
    foreign = {name.partition(".")[0] for name in modules} - OF_PYTHON
    assert {name for name in foreign if not name.startswith("_")} - packages == set()
    assert sorted(name for name in modules if name.startswith(UNWANTED)) == []
    own = [name for name in modules if name.startswith("frazil")]
    assert len(own) <= most, "more modules of frazil than before: a new import of something large?"


def test_a_command_starts_no_threads_that_it_does_not_use(example: Example) -> None:
    """Those of numpy wait busily, which takes a third of the processor time of `frazil log`."""
    count = "    print('threads', len(os.listdir('/proc/self/task')), 'numpy' in sys.modules)\n"
    program = f"import os\n{RUN.partition('finally:')[0]}finally:\n{count}"
    environment = {key: value for key, value in os.environ.items() if "NUM_THREADS" not in key}
    done = subprocess.run(
        [sys.executable, "-c", program, "log", example.path],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    assert done.stdout.splitlines()[-1] == "threads 1 True"


def test_ingest_shows_something_before_it_loads_anything(tmp_path: Path) -> None:
    """Python itself lists on the same terminal what it has loaded; the line is gone at the end."""
    repo = tmp_path / "repo"
    succeeds("init", repo)
    ours, theirs = pty.openpty()
    command = [sys.executable, "-X", "importtime", "-m", "frazil", "ingest"]
    with subprocess.Popen(
        [*command, write_day(tmp_path, 0), repo], stdout=theirs, stderr=theirs
    ) as running:
        os.close(theirs)
        shown = b""
        while part := read_or_end(ours):
            shown += part
    os.close(ours)
    assert running.returncode == 0, shown
    before, line, after = shown.decode().partition("Looking at the sources ...")
    assert line
    imports = re.compile(r"^import time: +\d.*\| +([a-z]\w*)", re.MULTILINE)
    assert set(imports.findall(before)) - OF_PYTHON - HELP == set()
    assert {"numpy", "h5py", "zarr"} <= set(imports.findall(after))
    assert "committed" in after.rpartition("\x1b[K")[2]


# Values that need no pydantic are converted by frazil; all others, and their errors, are typer's.


@pytest.mark.parametrize(
    ("typed", "code", "message"),
    [
        ("0", 2, "greater than or equal to 1"),
        ("-1", 2, "greater than or equal to 1"),
        ("x", 2, "valid integer"),
        ("1.5", 2, "valid integer"),
        ("\N{SUPERSCRIPT TWO}", 2, "valid integer"),
        ("", 2, "valid integer"),
        ("9" * 5000, 2, "maximum size"),
    ],
)
def test_a_number_that_is_none_is_refused(
    example: Example, typed: str, code: int, message: str
) -> None:
    answer = frazil("log", example.path, "-n", typed)
    assert answer.code == code
    assert message in answer.err


@pytest.mark.parametrize("typed", ["2", "02", "+2", " 2 ", "99"])
def test_a_number_is_one_however_it_is_written(example: Example, typed: str) -> None:
    assert len(succeeds("log", example.path, "-n", typed, "--json").json) == min(3, int(typed))
