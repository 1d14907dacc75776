"""Files around the package: they install anywhere, and say the same things as one another."""

import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROMISED = {"demo", "test", "check", "lint", "types", "format", "compat", "spark", "bench", "clean"}


def test_constraints_are_exact_versions_and_nothing_else() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert len(lines) > 40
    wrong = [line for line in lines[1:] if not re.fullmatch(r"[\w.\-]+==[\w.!+\-]+", line)]
    assert wrong == []


def test_make_alone_lists_the_targets() -> None:
    done = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True)  # noqa: S607 -- whichever make the user has
    assert set(re.findall(r"^  make ([a-z-]+) ", done.stdout, re.MULTILINE)) >= PROMISED


def test_ci_runs_what_a_developer_runs() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    commands = script.read_text().splitlines()
    assert "export FRAZIL_STRICT=1" in commands
    assert [line for line in commands if line.startswith("make ")] == [
        "make lint types",
        "make test",
    ]
