"""Links between the pages of the documentation lead somewhere."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
LINK = re.compile(r"\]\((?!\w+:)(?P<target>[^)#]+)")


def test_there_are_pages() -> None:
    assert {"README.md", "index.md"} <= {page.name for page in PAGES}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_link_leads_to_a_file(page: Path) -> None:
    targets = [link["target"] for link in LINK.finditer(page.read_text())]
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_contributing_stays_short() -> None:
    rules, glossary = (ROOT / "CONTRIBUTING.md").read_text().split("\n| term |")
    assert len(rules.splitlines()) <= 80
    assert 40 <= len(glossary.splitlines()) <= 60
