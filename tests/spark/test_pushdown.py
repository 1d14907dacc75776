"""Filter pushdown is offered only where it is right."""

import pyspark
import pytest
from pyspark.sql import SparkSession

from frazil.spark.io.data_source import ChunkReader, IcechunkReader, TableReader
from frazil.spark.io.pushdown import MEASURED, pushdown_is_right
from tests.spark.pushdown_table import answers

pytestmark = [pytest.mark.spark, pytest.mark.spark_matrix]


def test_what_is_said_of_the_running_pyspark_is_true(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    found = answers(spark)
    capsys.readouterr()  # plans, printed
    assert found["two loads"] == (70, 70)  # whoever fails here has no working source at all
    right = all(got == expected for got, expected in found.values())
    assert right == pushdown_is_right(pyspark.__version__), found


def test_readers_push_nothing_while_no_version_is_right() -> None:
    assert not any(MEASURED.values())
    for reader in (IcechunkReader, ChunkReader, TableReader):
        assert "pushFilters" not in vars(reader)
    assert not pushdown_is_right("9.9.0")
