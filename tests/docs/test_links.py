"""Links between the pages of the documentation lead somewhere."""

import re
from pathlib import Path
from xml.etree import ElementTree as ET

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


def test_drawings_of_the_concepts_fit_light_and_dark_pages_and_are_shown() -> None:
    shown = re.findall(r"\((images/concepts/[^)]+)\)", (ROOT / "docs" / "concepts.md").read_text())
    drawings = sorted((ROOT / "docs" / "images" / "concepts").iterdir())
    assert sorted(ROOT / "docs" / name for name in shown) == drawings
    for drawing in drawings:
        text = drawing.read_text()
        root = ET.fromstring(text)  # noqa: S314 -- our own
        assert root.find("{*}title") is not None
        assert root.find("{*}desc") is not None
        light, _, dark = text.partition("@media (prefers-color-scheme: dark)")
        classes = {each.get("class") for each in root.iter()} - {None, "name", "code"}
        for name in classes:
            assert f".{name} {{" in light, (drawing, name)
            assert f".{name} {{" in dark, (drawing, name)
        assert "href" not in text  # asks for nothing


def test_contributing_stays_short() -> None:
    rules, glossary = (ROOT / "CONTRIBUTING.md").read_text().split("\n| term |")
    assert len(rules.splitlines()) <= 80
    assert 40 <= len(glossary.splitlines()) <= 60
