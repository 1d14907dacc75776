"""The blocks of docs/migration.md run, one after the other."""

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "migration.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def test_the_blocks_run(tmp_path: Path) -> None:
    assert len(BLOCKS) == 3
    done = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning:__main__", "-c", "\n".join(BLOCKS)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "{'main'}\n"
