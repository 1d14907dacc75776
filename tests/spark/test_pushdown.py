"""Filter pushdown of PySpark's Python sources gives wrong results: docs/spark-facts.md 1.

So frazil's Python source has none, and predicates prune by the native table. `make spark-matrix`
asks every supported version, and fails when what is said here is no longer true.
"""

import pyspark
import pytest
from pyspark.sql import SparkSession

from frazil.spark.io.data_source import ChunkReader, IcechunkReader, TableReader
from tests.spark.pushdown_table import answers

pytestmark = [pytest.mark.spark, pytest.mark.spark_matrix]

# Version of PySpark -> whether all queries are answered right. Measured with 4.1.4, 4.2.1, 4.3.0.
MEASURED = {(4, 1): False, (4, 2): False, (4, 3): False}


def test_what_is_said_of_the_running_pyspark_is_true(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    found = answers(spark)
    capsys.readouterr()  # plans, printed
    assert found["two loads"] == (70, 70)  # whoever fails here has no working source at all
    right = all(got == expected for got, expected in found.values())
    major, minor, *_ = map(int, pyspark.__version__.split(".")[:2])
    assert right == MEASURED.get((major, minor), False), found


def test_readers_push_nothing_while_no_version_is_right() -> None:
    for reader in (IcechunkReader, ChunkReader, TableReader):
        assert "pushFilters" not in vars(reader)
