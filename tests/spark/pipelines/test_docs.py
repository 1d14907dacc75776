"""The blocks of docs/spark-pipelines.md run, one after the other, in the session of the tests."""

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

PAGE = Path(__file__).parents[3] / "docs" / "spark-pipelines.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
PLACES = "weather|t2m.zarr|rows|files|copy|view"


@pytest.mark.spark
def test_the_blocks_run(spark: SparkSession, tmp_path: Path) -> None:
    assert len(BLOCKS) > 5
    names: dict[str, object] = {"__name__": "__main__"}  # so that functions travel by value
    for block in BLOCKS:
        # workers start where the session did
        there = re.sub(rf'"({PLACES})"', rf'"{tmp_path}/\1"', block)
        exec(compile(there, str(PAGE), "exec"), names)  # noqa: S102 -- our own page
    assert names["spark"] is spark
    assert len(list((tmp_path / "files").iterdir())) == 3
