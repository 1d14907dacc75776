"""The site is built without a warning, and asks nobody else for anything."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", made],
        cwd=ROOT,
        env={"PATH": "", "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return made


def test_every_page_is_there(site: Path) -> None:
    pages = [page.relative_to(ROOT / "docs") for page in (ROOT / "docs").rglob("*.md")]
    assert [page for page in pages if not (site / page.with_suffix(".html")).exists()] == []


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    fetched = re.compile(r"<(?:script|link|img|iframe)[^>]*(?:src|href)=\"?https?://[^\s>\"]*")
    found = {page.name: fetched.findall(page.read_text()) for page in site.rglob("*.html")}
    assert {name: each for name, each in found.items() if each} == {}


def test_the_reference_has_signatures_and_docstrings(site: Path) -> None:
    for page, words in {
        "repository": ["writable_session", "garbage_collect", "ancestry", "at a snapshot"],
        "storage": ["s3_storage", "force_path_style"],
        "spark": ["ingest", "concat_dim", "rechunk"],
        "config": ["inline_chunk_threshold_bytes"],
        "errors": ["ConflictError"],
    }.items():
        text = re.sub(r"<[^>]+>", "", (site / "reference" / f"{page}.html").read_text())
        assert [word for word in words if word not in text] == [], page


def test_links_to_files_of_the_tree_are_paths(site: Path) -> None:
    assert "<code>CONTRIBUTING.md</code>" in (site / "index.html").read_text()
