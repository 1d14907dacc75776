"""docs/verify.md: its blocks run, and its table has every kind of problem and every rule."""

import re
import subprocess
import sys
from pathlib import Path

from frazil.maintenance.verify.problems import KINDS, RULES

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "verify.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
# What no bytes can show: what storage and writers do, not what they leave
UNSEEN = {"STORE-1", "STORE-2", "CAS-1", "REF-2"}


def test_the_blocks_run(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(BLOCKS)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "error chunk-missing manifests/" in done.stdout


def test_the_table_is_that_of_the_code() -> None:
    rows = re.findall(r"^\| `([\w-]+)` \|(.*)\|$", PAGE.read_text(), re.MULTILINE)
    assert [name for name, _ in rows] == list(KINDS)
    for name, cells in rows:
        kind = KINDS[name]
        shown = [cell.strip() for cell in cells.split("|")]
        rules = ", ".join(RULES.get(name, ()))
        assert shown == [str(kind.severity), kind.meaning, rules, kind.repair or ""]


def test_every_rule_that_bytes_can_show_is_verified() -> None:
    page = (DOCS / "spec-coverage.md").read_text()
    rules = set(re.findall(r"^\| ([A-Z]+-\d+) \|", page, re.MULTILINE))
    rules = {rule for rule in rules if not rule.startswith("FACT")}
    assert {rule for each in RULES.values() for rule in each} == rules - UNSEEN
    assert RULES.keys() <= KINDS.keys()
