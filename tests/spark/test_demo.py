"""`make demo` in small, from end to end, in a process of its own as a newcomer would run it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PNG = b"\x89PNG\r\n\x1a\n"

pytestmark = pytest.mark.spark


def test_the_demo_runs_and_every_reader_agrees(tmp_path: Path) -> None:
    output = tmp_path / "out"

    done = subprocess.run(
        [sys.executable, "-m", "demo.run", "--small", "--output", str(output)],
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "120"},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    pruned = re.search(r"read (\d+) of (\d+) chunks", done.stdout)
    assert pruned is not None, done.stdout
    assert int(pruned[1]) < int(pruned[2])
    assert "every value of the old version is unchanged" in done.stdout
    assert done.stdout.count("identical") == 2  # icechunk, and the files themselves
    assert (output / "weather.png").read_bytes().startswith(PNG)
    assert "Traceback" not in done.stdout + done.stderr
