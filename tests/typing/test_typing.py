"""Programs of users are checked by `mypy --strict`, with frazil as it is when installed."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from tests.environments import ask, make_environment

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("program.py")
EXAMPLES = ROOT / "examples"


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with a copy of the package: mypy then believes only what py.typed allows."""
    interpreter = make_environment(tmp_path_factory.mktemp("installed"), without={"__editable__"})
    packages = Path(ask(interpreter, "import sysconfig; print(sysconfig.get_path('purelib'))"))
    nothing_compiled = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src" / "frazil", packages / "frazil", ignore=nothing_compiled)
    return interpreter


@pytest.fixture(scope="module")
def cache(pytestconfig: pytest.Config) -> Path:
    assert pytestconfig.cache is not None
    return pytestconfig.cache.mkdir("mypy")


def check(python: Path, cache: Path, *files: Path, folder: Path) -> str:
    """What mypy says, with its own defaults: the settings of this project are not the user's."""
    options = [
        "--strict",
        "--config-file=",
        f"--cache-dir={cache}",
        f"--python-executable={python}",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, *files],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.stderr == ""
    return done.stdout


def test_a_program_that_is_right_is_found_right(python: Path, cache: Path, tmp_path: Path) -> None:
    shutil.copy(PROGRAM, tmp_path)
    assert "Success" in check(python, cache, tmp_path / PROGRAM.name, folder=tmp_path)


def test_the_program_runs() -> None:
    subprocess.run([sys.executable, "-W", "error", PROGRAM], check=True, timeout=120)


def test_the_examples_are_found_right(python: Path, cache: Path) -> None:
    files = sorted(EXAMPLES.glob("*.py"))
    assert "Success" in check(python, cache, *files, folder=EXAMPLES)


def test_mistakes_are_found(python: Path, cache: Path, tmp_path: Path) -> None:
    program = dedent(
        """\
        import frazil
        from frazil import nonsense  # attr-defined
        from frazil.config import Nonsense  # attr-defined
        repo = frazil.Repository.open("weather")  # arg-type
        repo.writable_session()  # call-arg
        repo.writable_session("main").commit(1)  # arg-type
        number: int = repo.lookup_branch("main")  # assignment
        repo.readonly_session("main").nonsense  # attr-defined
        frazil.Repository.create(frazil.in_memory_storage(), None, spec_version="two")  # arg-type
        frazil.nonsense  # attr-defined
        """
    )
    (tmp_path / "wrong.py").write_text(program)
    said = check(python, cache, tmp_path / "wrong.py", folder=tmp_path)
    found = re.findall(r"^wrong\.py:(\d+): error: .*\[([a-z-]+)\]$", said, re.MULTILINE)
    expected = [
        (str(number), line.partition("  # ")[2])
        for number, line in enumerate(program.splitlines(), 1)
        if "  # " in line
    ]
    assert found == expected, said


def test_without_py_typed_nothing_would_be_believed(
    python: Path, tmp_path: Path, cache: Path
) -> None:
    """So that the tests above show that the file is there and does its work."""
    found = next(python.parents[1].rglob("frazil/py.typed"))
    moved = found.rename(found.with_name("elsewhere"))
    try:
        shutil.copy(PROGRAM, tmp_path)
        said = check(python, cache, tmp_path / PROGRAM.name, folder=tmp_path)
    finally:
        moved.rename(found)
    assert "import-untyped" in said
