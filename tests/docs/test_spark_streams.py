"""The blocks of docs/spark-streams.md run, one after the other, in an empty folder."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "spark-streams.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.spark
def test_the_blocks_run(tmp_path: Path) -> None:
    assert len(BLOCKS) == 4
    done = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning:__main__", "-c", "\n".join(BLOCKS)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr
