"""docs/reliability.md: its block runs, its table says that nothing was lost, its tests exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reliability.md").read_text()
TABLE = PAGE.partition("<!-- table -->")[2].partition("<!-- end of table -->")[0]


def test_the_block_runs() -> None:
    (block,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    exec(compile(block, "docs/reliability.md", "exec"), {"__name__": "page"})  # noqa: S102 -- our own


def test_nothing_was_lost_in_many_trials() -> None:
    lines = [line for line in TABLE.splitlines() if line.startswith("|")][2:]
    rows = [line.split("|")[1:-1] for line in lines]
    assert len(rows) > 40
    assert {row[1].strip() for row in rows} == {"local disk", "S3 (SeaweedFS)", "in memory"}
    for fault, _, trials, lost, _ in rows:
        assert int(trials) > 0, fault
        assert int(lost) == 0, fault


def test_the_tests_it_names_are_there() -> None:
    folder = Path()
    for name in re.findall(r"`((?:tests/[\w/]+/)?\w+\.py)`", PAGE):
        folder = (ROOT / name).parent if "/" in name else folder
        assert (ROOT / name if "/" in name else folder / name).exists(), name


def test_the_modules_it_names_are_there() -> None:
    kit = ROOT / "src" / "frazil" / "testing"
    named = set(re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", PAGE, re.MULTILINE))
    found = {name for group in named for name in re.findall(r"\w+", group)}
    there = {path.stem for path in kit.glob("*.py")} - {"__init__", "loopback"}
    assert there <= found
