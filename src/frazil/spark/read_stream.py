"""Streaming DataFrames of what the commits of a branch change."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from pyspark.sql import DataFrame, SparkSession

from frazil.errors import InvalidInputError
from frazil.spark.index_selection import to_index_selection
from frazil.spark.opened import RepositoryLike, access_to, place_of
from frazil.spark.options import (
    DEFAULT_PARTITION_BYTES,
    ChunkData,
    Mode,
    ReadOptions,
    Version,
    format_options,
)
from frazil.spark.register import register_source
from frazil.spark.selection import to_selection
from frazil.spark.source import FORMAT
from frazil.spark.streaming.source import parse_stream


def read_stream(
    spark: SparkSession,
    repository: RepositoryLike,
    *,
    mode: str = Mode.ROWS,
    changes: bool = True,
    start_from: str | None = None,
    starting_snapshot: str | None = None,
    starting_timestamp: datetime | str | None = None,
    max_commits_per_trigger: int | None = None,
    on_rewrite: str | None = None,
    on_removal: str | None = None,
    branch: str | None = None,
    group: str = "/",
    variables: Sequence[str] | str | None = None,
    columns: Sequence[str] | None = None,
    dims: Sequence[str] | None = None,
    sel: Mapping[str, object] | None = None,
    isel: Mapping[str, object] | None = None,
    data: str = ChunkData.DECODED,
    decode_cf: bool = True,
    partition_bytes: int = DEFAULT_PARTITION_BYTES,
    storage: Mapping[str, object] | None = None,
) -> DataFrame:
    """Rows, or chunks, of each commit of a branch, with the columns that say what changed when.

    Options as those of `spark.readStream.format("icechunk")`; the rest as in `read` and
    `read_chunks`. What is wrong is found out at once, and by the executors' errors later.
    """
    names = (variables,) if isinstance(variables, str) else variables
    if mode not in set(Mode):
        raise InvalidInputError(f"mode is {mode!r}, expected 'rows' or 'chunks'")
    place = place_of(repository, storage)
    options = ReadOptions(
        path=place.path,
        secret_storage=place.secret,
        mode=Mode(mode),
        group="/" + group.strip("/"),
        variables=None if names is None else tuple(names),
        columns=None if columns is None else tuple(columns),
        dims=None if dims is None else tuple(dims),
        selection=to_selection(sel or {}),
        isel=to_index_selection(isel or {}),
        version=Version(branch=branch),
        chunk_data=ChunkData(data),
        decode_cf=decode_cf,
        partition_bytes=partition_bytes,
        access=access_to(repository),
    )
    given = {
        "changes": "true" if changes else None,
        "startFrom": start_from,
        "startingSnapshot": starting_snapshot,
        "startingTimestamp": _iso(starting_timestamp),
        "maxCommitsPerTrigger": max_commits_per_trigger,
        "onRewrite": on_rewrite,
        "onRemoval": on_removal,
    }
    said = {name: str(value) for name, value in given.items() if value is not None}
    told = {**format_options(options), **said}
    parse_stream(told)
    register_source(spark)
    return spark.readStream.format(FORMAT).options(**told).load()


def _iso(when: datetime | str | None) -> str | None:
    if not isinstance(when, datetime):
        return when
    aware = when if when.tzinfo else when.replace(tzinfo=UTC)
    return aware.astimezone(UTC).isoformat().replace("+00:00", "Z")
