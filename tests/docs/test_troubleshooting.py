"""docs/troubleshooting.md and docs/spark-clusters.md quote what the source says."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from frazil.cli.failure import EXIT_CODES

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "frazil"
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text()
VALUE = "\0"  # where a value is put into a text
ROWS = [line for line in PAGE.splitlines() if line.startswith("| `")]
QUOTED = [quoted for row in ROWS for quoted in re.findall(r"`([^`]+)`", row.split(" | ")[0])]


@cache
def texts() -> str:
    """All string literals, values in f-strings as VALUE; adjacent literals are one."""
    found = []
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.JoinedStr):
                parts = [getattr(part, "value", None) for part in node.values]
                found.append("".join(part if isinstance(part, str) else VALUE for part in parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return "\n".join(" ".join(text.split()) for text in found)


def is_in_source(message: str) -> bool:
    parts = [re.escape(part.strip(" ")) for part in message.split("...")]
    return re.search(rf"[ `]*{VALUE}[^\n]*?".join(parts), texts()) is not None


def test_there_are_messages() -> None:
    assert len(QUOTED) > 70
    assert len(set(QUOTED)) == len(QUOTED)


@pytest.mark.parametrize("message", QUOTED)
def test_a_quoted_message_is_in_the_source(message: str) -> None:
    assert len(message.replace("...", "").strip()) > 10
    assert is_in_source(message)


def test_a_message_that_does_not_exist_is_noticed() -> None:
    assert is_in_source("Rebase failed on snapshot ...: ...")
    assert not is_in_source("Rebase failed on branch ...: ...")
    assert not is_in_source("Rebase ... failed on snapshot")


def test_the_exit_codes_are_those_of_the_command_line() -> None:
    told = PAGE.partition("## Exit codes")[2]
    assert [int(code) for code in re.findall(r"(?:^|; )(\d+) ", told, re.MULTILINE)] == [
        *EXIT_CODES
    ]


def test_the_metrics_on_the_page_about_clusters_are_those_of_the_table() -> None:
    java = (SOURCE / "spark/native/java/frazil/spark/Counters.java").read_text()
    page = (ROOT / "docs" / "spark-clusters.md").read_text()
    table = page.partition("| metric | look at it when |")[2].partition("\n\n")[0]
    told = re.findall(r"`([^`]+)`", table)
    assert sorted(told) == sorted(re.findall(r'Metric\("\w+", "([^"]+)"\)', java))
