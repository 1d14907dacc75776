"""What docs/spark-write.md tells; its blocks run in test_pages.py."""

from pathlib import Path

from frazil.spark.writing.options import OPTIONS

PAGE = Path(__file__).parents[2] / "docs" / "spark-write.md"


def test_the_page_names_every_option() -> None:
    page = PAGE.read_text()
    hidden = {"secretAccess", "secretStorage", "checkpointLocation", "queryName"}
    assert [name for name in OPTIONS if name not in hidden and f"`{name}`" not in page] == []
