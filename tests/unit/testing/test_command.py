"""`python -m frazil.testing`: a store is checked without pytest and hypothesis."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[3] / "examples"
BROKEN = """
from frazil.objectstore import ALWAYS, MemoryStore

class Forgetful(MemoryStore):
    def put(self, key, data, *, when=ALWAYS):
        return super().put(key, data)  # ignores the condition

class Unsorted(MemoryStore):
    def get_ranges(self, key, ranges):
        return super().get_ranges(key, sorted(ranges, key=lambda part: part.start))

class Greedy(MemoryStore):
    def list(self, prefix=""):
        return super().list(prefix.rpartition("/")[0])

class Stale(MemoryStore):
    def reread(self, key, cached):
        return cached or self.get(key)
"""
# An import of these fails, as if they were not installed.
WITHOUT = """
import sys
from importlib.abc import MetaPathFinder

class Absent(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"pytest", "_pytest", "hypothesis"}:
            raise ModuleNotFoundError(name)

import importlib.util
find_spec = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: (
    None if name in {"pytest", "hypothesis"} else find_spec(name, package)
)
sys.meta_path.insert(0, Absent())
from frazil.testing.__main__ import main
sys.exit(main())
"""


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", WITHOUT, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_a_good_store_passes() -> None:
    done = run(
        EXAMPLES, "--store", "toy_object_store:new_store", "--operations", "100", "--seed", "4"
    )
    lines = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (0, "")
    assert len(lines) > 80
    assert all(line.startswith("ok  ") for line in lines[:-1])
    assert lines[-1] == f"{len(lines) - 1} of {len(lines) - 1} checks passed, seed 4"


@pytest.mark.parametrize(
    ("store", "check"),
    [
        ("Forgetful", "create refuses what is there"),
        ("Forgetful", "races for one key have one winner"),
        ("Forgetful", "random operations agree with a model"),
        ("Unsorted", "many ranges come in the order asked for"),
        ("Greedy", "all keys that start with the prefix are listed"),
        ("Stale", "what is read again is what is there"),
    ],
)
def test_a_broken_store_is_caught(store: str, check: str, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text(BROKEN)
    done = run(tmp_path, "--store", f"broken:{store}", "--only", check)
    assert (done.returncode, done.stderr) == (1, "")
    assert f"FAILED  {check}" in done.stdout
    assert "AssertionError" in done.stdout


def test_the_seed_repeats_the_operations(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text(BROKEN)
    arguments = ("--store", "broken:Forgetful", "--only", "random operations", "--seed", "9")
    assert run(tmp_path, *arguments).stdout == run(tmp_path, *arguments).stdout


def test_it_says_how_it_is_used(tmp_path: Path) -> None:
    done = run(tmp_path, "--help")
    assert done.returncode == 0
    assert "--store MODULE:FACTORY" in done.stdout
    wrong = run(tmp_path, "--store", "no_colon")
    assert wrong.returncode == 2
    assert "not of the form module:name" in wrong.stderr
