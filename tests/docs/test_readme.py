"""The examples of the README run, in the order in which they stand there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)


def run(script: str, folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning:__main__", "-c", script],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_there_is_an_example_for_python_and_one_for_spark() -> None:
    assert ["spark" in block for block in BLOCKS] == [False, True]


def test_the_python_example_runs(tmp_path: Path) -> None:
    run(BLOCKS[0], tmp_path)


@pytest.mark.spark
def test_the_spark_example_runs_after_it(tmp_path: Path) -> None:
    run("\n".join(BLOCKS), tmp_path)
