"""Comments and pages cite only documents that are in the repository."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TREES = ("src", "tests", "docs", "examples", "demo", "benchmarks", "scripts")
SUFFIXES = {".py", ".md", ".sh", ".toml", ".yml", ".yaml"}
PATH = re.compile(
    r"(?<![\w/.*{}-])((?:docs|tests|scripts|benchmarks|examples)/[\w./-]*\w\.(?:md|py|sh))\b"
)
# Working papers that were never part of the repository, by the names under which they were cited.
PAPERS = re.compile(
    r"\b(?:SPARK|SPARK_NATIVE|FORMATS|STYLE|STORES|REFERENCE|DEMAND|PARITY_FACTS|HOUSE|DESIGN)"
    r"(?:\.md\b| §|: [0-9]| [0-9]| \")"
)
FACT = re.compile(r"docs/spark-facts\.md (\d+)")


def texts() -> dict[str, str]:
    roots = [*(ROOT / tree for tree in TREES)]
    files = [file for root in roots for file in root.rglob("*") if file.suffix in SUFFIXES]
    files += [*ROOT.glob("*.md"), ROOT / "pyproject.toml", ROOT / "Makefile"]
    named = {file.relative_to(ROOT).as_posix(): file for file in files if file.is_file()}
    skipped = {"tests/docs/test_citations.py", "CHANGELOG.md"}  # samples; history
    return {name: named[name].read_text() for name in sorted(named.keys() - skipped)}


def papers_in(text: str) -> list[str]:
    return [match[0] for match in PAPERS.finditer(text)]


def paths_in(text: str) -> list[str]:
    return [match[1] for match in PATH.finditer(text)]


def test_no_working_paper_is_cited() -> None:
    cited = {name: papers for name, text in texts().items() if (papers := papers_in(text))}
    assert cited == {}


def test_cited_files_are_in_the_repository() -> None:
    missing = [
        f"{name}: {path}"
        for name, text in texts().items()
        for path in paths_in(text)
        if not (ROOT / path).exists()
    ]
    assert missing == []


def test_facts_about_spark_that_are_cited_are_on_the_page() -> None:
    page = (ROOT / "docs" / "spark-facts.md").read_text()
    numbers = [int(number) for number in re.findall(r"^## (\d+)\. ", page, re.MULTILINE)]
    assert numbers == list(range(1, len(numbers) + 1))
    cited = {int(number) for text in texts().values() for number in FACT.findall(text)}
    assert cited
    assert cited <= set(numbers)


@pytest.mark.parametrize(
    "text",
    ["SPARK.md §1.2", "see FORMATS: 4.1", "(STYLE 18)", 'REFERENCE "Manifest"', "REFERENCE §1"],
)
def test_a_citation_of_a_paper_is_noticed(text: str) -> None:
    assert papers_in(text)


def test_a_citation_of_a_missing_file_is_noticed() -> None:
    assert paths_in("as docs/nowhere.md says, and `tests/unit/a.py::test`") == [
        "docs/nowhere.md",
        "tests/unit/a.py",
    ]
    assert papers_in("FORMATS = {}; _REFERENCE, STYLE: Any = 1") == []
