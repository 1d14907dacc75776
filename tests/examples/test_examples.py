"""The scripts in examples/ run with either package, and show the same."""

import os
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.environments import make_environment

FOLDER = Path(__file__).parents[2] / "examples"
EVERY = sorted(path.name for path in FOLDER.glob("[0-9]*.py"))
EXAMPLES = [name for name in EVERY if "spark" not in name]  # those run in tests/spark


@cache  # of one process: tests/conftest.py keeps these tests together
def output(
    example: str,
    engine: str,
    folder: Path,
    python: str | Path = sys.executable,
    path: str = "",
) -> str:
    for _ in range(3):
        done = subprocess.run(
            [python, "-W", "error", str(FOLDER / example), "--engine", engine],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        # The reference crashes now and then, after all output, when its interpreter ends.
        if engine != "icechunk" or done.returncode != -signal.SIGSEGV:
            break
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("examples")


def test_the_examples_are_numbered_without_a_gap() -> None:
    assert [int(name[:2]) for name in EVERY] == list(range(1, len(EVERY) + 1))
    assert len(EXAMPLES) >= 7


def test_the_readme_of_the_examples_names_them_all() -> None:
    text = (FOLDER / "README.md").read_text()
    assert [name for name in EVERY if f"({name})" not in text] == []


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_runs_with_frazil_and_shows_something(example: str, folder: Path) -> None:
    assert output(example, "frazil", folder)


@pytest.mark.compat
@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_shows_the_same_with_the_reference(example: str, folder: Path) -> None:
    assert output(example, "icechunk", folder) == output(example, "frazil", folder)


@pytest.fixture(scope="module")
def without_icechunk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_environment(tmp_path_factory.mktemp("environment"), without={"icechunk"})


@pytest.fixture(scope="module")
def installing(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A directory on whose account every process begins with `install_as_icechunk`."""
    made = tmp_path_factory.mktemp("customized")
    (made / "sitecustomize.py").write_text("import frazil\nfrazil.install_as_icechunk()\n")
    return str(made)


@pytest.mark.parametrize(
    "example",
    [*EXAMPLES[:3], *(pytest.param(name, marks=pytest.mark.long) for name in EXAMPLES[3:])],
)
def test_an_example_that_imports_icechunk_runs_on_frazil_alone(
    example: str, folder: Path, without_icechunk: Path, installing: str
) -> None:
    shown = output(example, "icechunk", folder, without_icechunk, installing)
    assert shown == output(example, "frazil", folder)


def test_without_installing_it_there_is_no_icechunk(folder: Path, without_icechunk: Path) -> None:
    with pytest.raises(AssertionError, match="No module named 'icechunk'"):
        output(EXAMPLES[0], "icechunk", folder, without_icechunk)


def test_an_unknown_engine_is_refused(folder: Path) -> None:
    with pytest.raises(AssertionError, match="invalid choice"):
        output(EXAMPLES[0], "nonsense", folder)


def test_an_example_leaves_nothing_behind(folder: Path) -> None:
    for example in EXAMPLES[:1]:
        output(example, "frazil", folder)
    assert list(folder.iterdir()) == []
