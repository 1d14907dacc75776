"""The blocks of the pages run, one after the other, in an empty folder; every page has its test."""

import re
import sys
from pathlib import Path

import pytest

from tests.servers.s3 import S3Server

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [
    "concepts",
    "netcdf",
    "chunks",
    "gallery",
    "xarray",
    "dask",
    "consistency",
    "format",
    "for-icechunk-users",
    "faq",
]
# Where the blocks of other pages run
ELSEWHERE = {
    "generations", "maintenance", "migration", "rewriting", "verify", "virtual", "virtual-sources",
    "spark", "spark-catalog", "spark-clusters", "spark-ingest", "spark-pipelines", "spark-read",
    "spark-streams", "spark-write", "explorer", "reliability", "security", "performance",
    "tutorial",
}  # fmt: skip


def blocks(page: str) -> str:
    text = (DOCS / f"{page}.md").read_text()
    return "\n".join(re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))


def run(program: str, name: str) -> None:
    exec(compile(program, f"docs/{name}.md", "exec"), {"__name__": "page"})  # noqa: S102 -- our own


@pytest.fixture
def _as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an empty folder; a page may install frazil under another name."""
    monkeypatch.chdir(tmp_path)
    for name in [each for each in sys.modules if each.partition(".")[0] == "icechunk"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))


@pytest.mark.usefixtures("_as_before")
@pytest.mark.parametrize("page", PAGES)
def test_the_blocks_of_a_page_run(page: str) -> None:
    program = blocks(page)
    assert "import" in program
    before = set(sys.modules)
    try:
        run(program, page)
    finally:
        for name in [each for each in sys.modules if each.partition(".")[0] == "icechunk"]:
            if name not in before:
                del sys.modules[name]


@pytest.mark.usefixtures("_as_before")
def test_the_block_about_object_stores_runs_against_a_server(s3_server: S3Server) -> None:
    program = blocks("object-stores")
    place = (
        f'bucket="{s3_server.bucket}", prefix="{s3_server.new_prefix()}", region="us-east-1",'
        f' endpoint_url="{s3_server.endpoint}", allow_http=True, force_path_style=True,'
        f' access_key_id="{s3_server.access_key}", secret_access_key="{s3_server.secret_key}"'
    )
    changed = program.replace('bucket="weather", prefix="era5", region="eu-west-1"', place)
    assert changed != program
    run(changed + "\nassert repository.lookup_branch('main')\n", "object-stores")


def test_every_page_with_a_block_has_a_test() -> None:
    with_blocks = {page.stem for page in DOCS.glob("*.md") if "```python" in page.read_text()}
    assert with_blocks - {*PAGES, *ELSEWHERE, "object-stores"} == set()
