"""Every dtype has the Spark type that the documentation says, and its values survive."""

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from pyspark.sql import SparkSession
from pyspark.sql.types import StructField, StructType

from frazil.api import Repository, local_filesystem_storage
from frazil.errors import InvalidInputError
from frazil.spark.table.cf import RAW, Values
from frazil.spark.table.description import ArrayDescription
from frazil.spark.table.schema import ColumnPlan, arrow_schema, spark_type, to_arrow, type_of_dtype
from tests.spark.repositories import put

DOCS = Path(__file__).parents[2] / "docs" / "spark-read.md"

# dtype, some values, what Python sees of them in Spark
DTYPES: dict[str, tuple[Any, list[Any], list[Any]]] = {
    "bool": ("?", [True, False], [True, False]),
    **{f"int{8 * n}": (f"i{n}", [-1, 2 ** (8 * n - 1) - 1], [-1, 2 ** (8 * n - 1) - 1])
       for n in (1, 2, 4, 8)},
    **{f"uint{8 * n}": (f"u{n}", [0, 2 ** (8 * n) - 1], [0, 2 ** (8 * n) - 1]) for n in (1, 2, 4)},
    "uint64": ("u8", [0, 2**64 - 1], [Decimal(0), Decimal(2**64 - 1)]),
    **{f"float{8 * n}": (f"f{n}", [0.5, -2], [0.5, -2.0]) for n in (2, 4, 8)},
    "complex64": ("c8", [1 + 2j, -1j], [{"re": 1.0, "im": 2.0}, {"re": 0.0, "im": -1.0}]),
    "complex128": ("c16", [1 + 2j, -1j], [{"re": 1.0, "im": 2.0}, {"re": 0.0, "im": -1.0}]),
    "datetime64": (
        "M8[s]", [np.datetime64("2024-01-02T03:04:05"), np.datetime64("NaT", "s")],
        [datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC), None],
    ),
    "timedelta64": ("m8[ms]", [np.timedelta64(1500, "ms"), np.timedelta64("NaT", "ms")],
                    [timedelta(seconds=1.5), None]),
    "fixed-length text": ("U3", ["løv", ""], ["løv", ""]),
    "text": (np.dtypes.StringDType(), ["løv", "a longer one"], ["løv", "a longer one"]),
    "fixed-length bytes": ("S3", [b"ab", b"abc"], [b"ab", b"abc"]),
    "raw bytes": ("V2", [np.void(b"\x00\x01"), np.void(b"ab")], [b"\x00\x01", b"ab"]),
    "structured": (
        [("a", "<i4"), ("b", "<f8"), ("t", "<M8[s]"), ("in", [("d", "<m8[ms]")])],
        [(1, 0.5, 60, (1500,)), (2, 1.5, "NaT", ("NaT",))],
        [
            {"a": 1, "b": 0.5, "t": datetime(1970, 1, 1, 0, 1, tzinfo=UTC),
             "in": {"d": timedelta(seconds=1.5)}},
            {"a": 2, "b": 1.5, "t": None, "in": {"d": None}},
        ],
    ),
}  # fmt: skip


def column_of(name: str, dtype: np.dtype[Any]) -> ColumnPlan:
    array = ArrayDescription(
        name=name, path=f"/{name}", dims=("x",), shape=(2,), chunks=(2,), dtype=dtype
    )
    return ColumnPlan(name, array, RAW, is_dimension=False, nan_is_null=True)


@pytest.mark.parametrize("name", list(DTYPES))
def test_arrow_is_of_the_type_that_spark_expects(name: str) -> None:
    dtype, values, expected = DTYPES[name]
    stored = np.array(values, dtype=dtype)
    null = np.isnat(stored) if stored.dtype.kind in "mM" else None
    column = to_arrow(Values(stored, null))
    found = spark_type(column_of("v", stored.dtype))
    schema = arrow_schema(StructType([StructField("v", found)]))
    assert column.type == schema.field("v").type
    assert column.to_pylist() == expected


@pytest.mark.parametrize("name", list(DTYPES))
def test_the_documentation_names_the_type(name: str) -> None:
    rows = dict(re.findall(r"^\| `([^`]+)` \| `([^`]+)` \|", DOCS.read_text(), re.MULTILINE))
    found = type_of_dtype(np.dtype(DTYPES[name][0]))
    assert found is not None
    shown = found.simpleString().upper() if name != "structured" else "STRUCT<..>"
    assert rows[name] == shown.replace("RE:", "re:").replace("IM:", "im:")


@pytest.mark.spark
@pytest.mark.spark_matrix
@pytest.mark.filterwarnings("ignore:.*does not have a Zarr V3 specification")
def test_every_dtype_is_read(spark: SparkSession, tmp_path: Path) -> None:
    repository = Repository.create(local_filesystem_storage(tmp_path / "r"))
    with repository.transaction("main", message="types") as store:
        for name, (dtype, values, _) in DTYPES.items():
            put(zarr.group(store), name.replace(" ", "_"), np.array(values, dtype=dtype), "x", 1)
    frame = spark.read.format("icechunk").load(str(tmp_path / "r")).orderBy("x")
    found = frame.toArrow()
    for name, (_, _, expected) in DTYPES.items():
        assert found[name.replace(" ", "_")].to_pylist() == expected, name


def test_a_dtype_without_a_type_is_told() -> None:
    odd = np.dtype([("a", "<i4", (2,))])
    with pytest.raises(InvalidInputError, match=r"'v' has dtype .* leave it out with the option"):
        spark_type(column_of("v", odd))
