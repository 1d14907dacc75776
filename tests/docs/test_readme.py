"""The example of the README runs as a program; tests/spark/test_pages.py runs that of Spark."""

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)


def test_there_is_an_example_for_python_and_one_for_spark() -> None:
    assert ["spark" in block for block in BLOCKS] == [False, True]


def test_the_python_example_runs(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning:__main__", "-c", BLOCKS[0]],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
