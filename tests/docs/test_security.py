"""docs/security.md names tests that exist, limits that are so, and examples that run."""

import ast
import re
from dataclasses import fields
from pathlib import Path

import pytest

from frazil.format.limits import Limits
from tests.fuzz.run import NAMES

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text()
CITED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", PAGE)))


def test_promises_have_tests() -> None:
    promises = PAGE.partition("## Promises")[2].partition("## Limits")[0]
    rows = [line for line in promises.splitlines() if line.startswith("| ") and "|---" not in line]
    rows = [row for row in rows if not row.startswith("| a repository cannot |")]
    assert len(rows) >= 25
    for row in rows:
        assert re.search(r"`tests/[\w/]+\.py", row), row


@pytest.mark.parametrize(("file", "name"), CITED, ids=[f"{f}-{n}" for f, n in CITED])
def test_the_tests_that_are_named_exist(file: str, name: str) -> None:
    functions = {
        node.name
        for node in ast.walk(ast.parse((ROOT / file).read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert not name or name in functions


def test_every_attack_is_on_the_page() -> None:
    """What is tested is promised: the page is the list of it."""
    promised = {name for _, name in CITED}
    for file in sorted((ROOT / "tests" / "hostile").glob("test_*.py")):
        assert f"tests/hostile/{file.name}" in PAGE, file
    assert len(promised) > 35


def test_the_limits_are_those_of_the_code() -> None:
    table = PAGE.partition("## Limits")[2].partition("## Servers")[0]
    for each in fields(Limits):
        assert f"`{each.name}`" in table
    limits = Limits()
    assert (limits.metadata_bytes, limits.chunk_bytes) == (2**31 - 1, 4 << 30)
    assert (limits.expansion, limits.cached_chunk_bytes) == (1000, 1 << 30)
    assert (limits.requests, limits.tries, limits.wait_ms) == (256, 100, 600_000)


def test_the_targets_of_the_fuzzer_are_listed() -> None:
    table = PAGE.partition("## Fuzzing")[2]
    for name in NAMES:
        assert f"`{name}`" in table


def test_the_examples_run() -> None:
    program = "\n".join(re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
    exec(compile(program, "docs/security.md", "exec"), {"__name__": "page"})  # noqa: S102 -- our own
