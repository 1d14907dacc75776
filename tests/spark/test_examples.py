"""The examples of Spark run, in the session of the tests."""

import runpy
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

FOLDER = Path(__file__).parents[2] / "examples"
SAID = {
    "12_spark_ingest_sql.py": [
        "one commit: 3 files, 8 chunks",
        "weather: read 1 of 6 chunks, 48 of 288 rows",
        "mean: 285.95",
        "warm rows: 2",
    ],
    "13_spark_stream.py": [
        "stored: [[280.0, 281.0, 282.0], [281.0, 282.0, 283.0]]",
        "commits: ['an empty grid', 'Repository initialized']",
    ],
    "14_spark_source_format.py": [
        "copied: 3 files, 2 chunks",
        "virtual: 3 files, 3 references",
        "equal: True",
        "mean: [280.55, 281.55, 282.55]",
    ],
}


def test_every_example_of_spark_is_run() -> None:
    assert sorted(path.name for path in FOLDER.glob("*spark*.py")) == sorted(SAID)


@pytest.mark.spark
@pytest.mark.parametrize("example", SAID)
def test_an_example_says_what_it_should(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], example: str
) -> None:
    runpy.run_path(str(FOLDER / example))["main"](spark, str(tmp_path))
    assert capsys.readouterr().out.splitlines() == SAID[example]
