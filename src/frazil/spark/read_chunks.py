"""DataFrames with a row per chunk."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from pyspark.sql import DataFrame, SparkSession

from frazil.spark.chunk_scan import chunk_schema, plan_chunk_scan
from frazil.spark.index_selection import to_index_selection
from frazil.spark.opened import RepositoryLike, access_to, place_of
from frazil.spark.options import (
    DEFAULT_PARTITION_BYTES,
    ChunkData,
    Mode,
    ReadOptions,
    format_options,
)
from frazil.spark.read import make_version, open_options
from frazil.spark.register import register_source
from frazil.spark.selection import to_selection
from frazil.spark.source import FORMAT


def read_chunks(
    spark: SparkSession,
    repository: RepositoryLike,
    *,
    group: str = "/",
    variables: Sequence[str] | str | None = None,
    dims: Sequence[str] | None = None,
    sel: Mapping[str, object] | None = None,
    isel: Mapping[str, object] | None = None,
    data: str = ChunkData.DECODED,
    include_missing: bool = False,
    branch: str | None = None,
    tag: str | None = None,
    snapshot: str | None = None,
    as_of: datetime | str | None = None,
    partition_bytes: int = DEFAULT_PARTITION_BYTES,
    storage: Mapping[str, object] | None = None,
) -> DataFrame:
    """A row per chunk of the arrays in a group: array, chunk, offset, shape, dtype, kind, data.

    `data` is "decoded" (bytes of the values), "encoded" (bytes as they are stored) or "values"
    (lists). Selections pick whole chunks.
    """
    names = (variables,) if isinstance(variables, str) else variables
    place = place_of(repository, storage)
    options = ReadOptions(
        path=place.path,
        secret_storage=place.secret,
        mode=Mode.CHUNKS,
        group="/" + group.strip("/"),
        variables=None if names is None else tuple(names),
        dims=None if dims is None else tuple(dims),
        selection=to_selection(sel or {}),
        isel=to_index_selection(isel or {}),
        chunk_data=ChunkData(data),
        include_missing=include_missing,
        version=make_version(branch=branch, tag=tag, snapshot=snapshot, as_of=as_of),
        partition_bytes=partition_bytes,
        access=access_to(repository),
    )
    opened, options = open_options(options)
    schema = chunk_schema(plan_chunk_scan(opened, options))
    register_source(spark)
    return spark.read.format(FORMAT).schema(schema).options(**format_options(options)).load()
