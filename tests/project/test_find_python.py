"""scripts/find_python.sh, on machines made up of shell scripts that answer like a Python."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "find_python.sh"
TOOLS = ("bash", "find", "sort", "tail", "paste", "cut", "env")


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A folder with an empty PATH folder `bin` but for the tools of the script, and a `home`."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "home").mkdir()
    for tool in TOOLS:
        found = shutil.which(tool)
        assert found
        (tmp_path / "bin" / tool).symlink_to(found)
    return tmp_path


def install(path: Path, version: str) -> Path:
    """Something that answers the script's question as a Python of that version would."""
    usable = tuple(map(int, version.split("."))) >= (3, 12)
    answer = f'echo "{path}"' if usable else "echo older than 3.12 >&2; exit 1"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho {version}\n{answer}\n")
    path.chmod(0o755)
    return path


def find_python(machine: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    known = {"PATH": str(machine / "bin"), "HOME": str(machine / "home")}
    return subprocess.run(
        [SCRIPT], env=known | environment, capture_output=True, text=True, check=False
    )


def test_a_recent_python3_is_taken(machine: Path) -> None:
    install(machine / "bin" / "python3.14", "3.14.0")
    python3 = install(machine / "bin" / "python3", "3.13.1")
    assert find_python(machine).stdout.strip() == str(python3)


def test_an_old_python3_is_passed_over(machine: Path) -> None:
    install(machine / "bin" / "python3", "3.11.7")
    newer = install(machine / "bin" / "python3.13", "3.13.0")
    install(machine / "bin" / "python3.14", "3.14.0")
    assert find_python(machine).stdout.strip() == str(newer)


@pytest.mark.parametrize("root", ["home/.pyenv", "elsewhere"])
def test_pyenv_versions_are_looked_at_oldest_first(machine: Path, root: str) -> None:
    install(machine / "bin" / "python3", "3.11.7")
    for version in ("3.9.18", "3.13.0", "3.12.1", "3.12.10"):
        install(machine / root / "versions" / version / "bin" / "python", version)
    found = find_python(machine, PYENV_ROOT=str(machine / root)).stdout.strip()
    assert found == str(machine / root / "versions" / "3.12.1" / "bin" / "python")


def test_a_python_that_was_named_is_the_only_one_considered(machine: Path) -> None:
    install(machine / "bin" / "python3", "3.13.0")
    old = install(machine / "old", "3.10.1")
    answer = find_python(machine, PYTHON=str(old))
    assert answer.returncode == 1
    assert answer.stdout == ""
    assert f"{old}: 3.10.1 older than 3.12" in answer.stderr


def test_without_any_the_error_says_what_was_looked_at(machine: Path) -> None:
    install(machine / "bin" / "python3", "3.11.7")
    answer = find_python(machine)
    assert answer.returncode == 1
    assert "needs Python 3.12 or later" in answer.stderr
    assert "python3: 3.11.7 older than 3.12" in answer.stderr
    assert "python3.14: not found" in answer.stderr


def test_this_very_python_passes() -> None:
    environment = os.environ | {"PYTHON": sys.executable}
    done = subprocess.run([SCRIPT], env=environment, capture_output=True, text=True, check=True)
    assert Path(done.stdout.strip()).samefile(sys.executable)
