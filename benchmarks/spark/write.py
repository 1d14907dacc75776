"""1.9 million rows of a Parquet table written to arrays, in both ways, and to Parquet again."""

import json
from pathlib import Path

from benchmarks.spark.meter import Meter
from benchmarks.spark.sample import (
    CHUNKS,
    ROWS_PER_HOUR,
    VALUE_BYTES,
    amount,
    create_repository,
    fields,
    start_spark,
)
from frazil.spark.io.read import read
from frazil.spark.writing.write import write

HOURS = amount(60, 4)
ROWS = HOURS * ROWS_PER_HOUR
SIZE_BYTES = ROWS * VALUE_BYTES
PHASE = "rows"


def prepare(folder: Path) -> None:
    repo = create_repository(folder / "source")
    with repo.transaction("main", message="sample") as store:
        encoding = {"t2m": {"chunks": tuple(CHUNKS.values())}}
        fields(0, HOURS).to_zarr(store, encoding=encoding, consolidated=False)
    read(start_spark(), repo).write.parquet(str(folder / "parquet"))


def shuffled(folder: Path, meter: Meter) -> None:
    rows = start_spark().read.parquet(str(folder / "parquet"))

    def work(number: int) -> None:
        repo = create_repository(folder / f"shuffled-{number}")
        write(rows, repo, dims=["time", "lat", "lon"], chunks=CHUNKS, order={"lat": "descending"})

    meter(PHASE, work, rows=ROWS, size_bytes=SIZE_BYTES)


def data_source(folder: Path, meter: Meter) -> None:
    rows = start_spark().read.parquet(str(folder / "parquet"))
    options = {
        "dims": "time,lat,lon",
        "chunks": json.dumps(CHUNKS),
        "order": '{"lat": "descending"}',
    }

    def work(number: int) -> None:
        path = folder / f"source-{number}"
        create_repository(path)
        rows.write.format("icechunk").mode("append").options(**options).save(str(path))

    meter(PHASE, work, rows=ROWS, size_bytes=SIZE_BYTES)


def parquet(folder: Path, meter: Meter) -> None:
    rows = start_spark().read.parquet(str(folder / "parquet"))
    meter(
        PHASE,
        lambda number: rows.write.parquet(str(folder / f"parquet-{number}")),
        rows=ROWS,
        size_bytes=SIZE_BYTES,
    )


SIDES = {"frazil.spark.write": shuffled, 'format("icechunk")': data_source, "Parquet": parquet}
