"""docs/spec-coverage.md names a test for every rule, and the tests it names exist."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "spec-coverage.md"
ROW = re.compile(r"^\| (?P<id>[A-Z]+-\d+) \| (?P<rule>.+) \| (?P<test>[^|]+) \|$", re.MULTILINE)
LINK = re.compile(r"`(?P<file>[\w/]+\.py)::(?P<test>\w+)`")
LATER = re.compile(r"\*later\*: \w.+")
ROWS = {row["id"]: row["test"] for row in ROW.finditer(PAGE.read_text())}


@cache
def functions_in(file: Path) -> frozenset[str]:
    return frozenset(
        node.name
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


def test_the_page_has_all_rules_and_no_id_twice() -> None:
    lines = [line for line in PAGE.read_text().splitlines() if re.match(r"\| [A-Z]", line)]
    assert len(ROWS) == len(lines)
    assert len(ROWS) > 50


@pytest.mark.parametrize("rule", ROWS)
def test_the_test_of_a_rule_exists(rule: str) -> None:
    cell = ROWS[rule].strip()
    if LATER.fullmatch(cell):
        return
    link = LINK.fullmatch(cell)
    assert link, f"{rule}: neither a test nor a reason: {cell}"
    file = ROOT / link["file"]
    assert file.is_file(), f"{rule}: there is no {link['file']}"
    assert link["test"] in functions_in(file), f"{rule}: {link['file']} has no {link['test']}"
