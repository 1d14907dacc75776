"""The page about PySpark versions says what the reports say."""

import re
from pathlib import Path

from scripts.spark_versions import AREAS, format_page, outcomes_in, without_area

ROOT = Path(__file__).parents[2]
REPORT = """<?xml version="1.0"?><testsuites><testsuite>
<testcase classname="tests.spark.test_read" name="good"/>
<testcase classname="tests.spark.test_read" name="bad"><failure message="no"/></testcase>
<testcase classname="tests.spark.test_tables" name="left out"><skipped message="why"/></testcase>
<testcase classname="tests.spark.pipelines.test_clone" name="good"/>
</testsuite></testsuites>"""


def test_a_row_for_each_area_and_a_column_for_each_version() -> None:
    page = format_page({"4.2.0": outcomes_in(REPORT), "4.3.0": []})
    rows = dict(re.findall(r"^\| ([^|]+) \| (.+) \|$", page, re.MULTILINE))
    assert "| | 4.2.0 | 4.3.0 |" in page
    assert list(rows) == list(AREAS)
    assert rows["rows, chunks, types"] == "1 passed, **1 not** | not run"
    assert rows["metadata tables"] == "0 passed, **1 not** | not run"
    assert rows["rechunk, reduce, map_blocks, export, clone"] == "1 passed | not run"


def test_every_file_of_the_matrix_has_an_area() -> None:
    assert without_area(outcomes_in(REPORT)) == set()
    marked = {
        path.stem
        for path in (ROOT / "tests" / "spark").rglob("test_*.py")
        if "mark.spark_matrix" in path.read_text()
    }
    assert marked == {module for modules in AREAS.values() for module in modules}
