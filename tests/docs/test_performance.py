"""The block of docs/performance.md runs, and what it names is there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "performance.md").read_text()


def test_the_blocks_run() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert blocks
    exec(compile("\n".join(blocks), "docs/performance.md", "exec"), {"__name__": "page"})  # noqa: S102 -- our own


def test_the_files_that_are_named_are_there() -> None:
    named = re.findall(r"`((?:benchmarks|tests|src)/[\w/]+\.py)`", PAGE)
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []
