"""The blocks of docs/spark-write.md run, one after the other, in the session of the tests."""

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from frazil.spark.writing.options import OPTIONS

PAGE = Path(__file__).parents[2] / "docs" / "spark-write.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.spark
def test_the_blocks_run(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(BLOCKS) > 5
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    # workers and the driver's own Python processes start where the session did
    for block in BLOCKS:
        there = re.sub(r'"(weather|incoming|incoming/1|checkpoint)"', rf'"{tmp_path}/\1"', block)
        exec(compile(there, str(PAGE), "exec"), names)  # noqa: S102 -- our own page
    assert names["spark"] is spark


def test_the_page_names_every_option() -> None:
    page = PAGE.read_text()
    hidden = {"secretAccess", "secretStorage", "checkpointLocation", "queryName"}
    assert [name for name in OPTIONS if name not in hidden and f"`{name}`" not in page] == []
