"""The blocks of docs/virtual-sources.md run, one after the other."""

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "virtual-sources.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
# See tests/sources/made.py: kerchunk may wait for itself.
BEFORE = "import gc; gc.disable()"


def test_the_blocks_run(tmp_path: Path) -> None:
    assert len(BLOCKS) > 3
    done = subprocess.run(
        [sys.executable, "-c", "\n".join([BEFORE, *BLOCKS])],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"refused: .*day\.nc", done.stdout)
