"""The blocks of pages run, one after the other, in an empty folder and the session of the tests."""

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
# By page: the places that its blocks name, which are moved into the folder: the workers and the
# driver's own Python processes start where the session did.
PLACES = {
    "README.md": "weather",
    "docs/spark.md": "weather|arriving|checkpoint|checkpoint of changes",
    "docs/spark-clusters.md": "preflight",
    "docs/spark-catalog.md": "warehouse|warehouse/weather",
    "docs/spark-streams.md": "weather|copy|checkpoint",
    "docs/spark-write.md": "weather|incoming|incoming/1|checkpoint",
    "docs/spark-pipelines.md": "weather|t2m.zarr|rows|files|copy|view",
}


LONG = {"docs/spark-streams.md", "docs/spark-write.md", "docs/spark-pipelines.md"}


@pytest.mark.spark
@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=[pytest.mark.long] if page in LONG else []) for page in PLACES],
)
def test_the_blocks_run(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: str
) -> None:
    text = (ROOT / page).read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert blocks
    monkeypatch.chdir(tmp_path)
    place = re.compile(rf"(['\"])({PLACES[page]})\1(?!:)")  # not as a key: that is a table's name
    names: dict[str, object] = {"__name__": "__main__"}  # so that functions travel by value
    for block in blocks:
        there = place.sub(lambda found: f"{found[1]}{tmp_path}/{found[2]}{found[1]}", block)
        exec(compile(there, page, "exec"), names)  # noqa: S102 -- our own page
    assert names["spark"] is spark
