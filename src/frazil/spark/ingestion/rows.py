"""Sources that are rows: DataFrames and Parquet files, which `frazil.spark.write` writes."""

from collections.abc import Iterable
from os import PathLike, fspath
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from frazil.errors import InvalidInputError
from frazil.spark.sources import SourceName
from frazil.spark.write import WriteResult, write

PARQUET = "parquet"


def find_rows(
    spark: SparkSession,
    sources: DataFrame | SourceName | Iterable[SourceName],
    format: str | None,  # noqa: A002 -- what Spark calls it
) -> DataFrame | list[str]:
    """The sources as one table, if they are rows; if they are arrays their names."""
    if isinstance(sources, DataFrame):
        return sources
    if isinstance(sources, Iterable) and not isinstance(sources, str | PathLike):
        names = [fspath(name) for name in sources]
    else:
        names = [fspath(sources)]
    are_parquet = [name.rstrip("/").lower().endswith(".parquet") for name in names]
    if format is None and any(are_parquet) and not all(are_parquet):
        raise InvalidInputError("Parquet files and arrays cannot be ingested together")
    if format == PARQUET or (format is None and names and all(are_parquet)):
        return spark.read.parquet(*names)
    return names


def write_rows(rows: DataFrame, repo: Any, *, dims: tuple[str, ...], **options: Any) -> WriteResult:
    """One commit. `dims` are the columns that say where a row goes."""
    if not dims and options.get("mode") == "create":
        raise InvalidInputError(
            "rows need concat_dim: the columns that are dimensions, in the order of the axes"
        )
    return write(rows, repo, dims=dims or None, **options)
