"""A file format of your own for `frazil.spark.ingest`. With frazil[spark,ingest].

A toy format: a header of 16 bytes, then a grid of float32, rows from north to south.

    bytes 0-3    b"TOY1"
    bytes 4-15   hour, rows and columns as little-endian int32
    bytes 16-    rows * columns little-endian float32

Three functions say how it is read; one line (`register_source_format`) makes ingest recognise it.
"""

import json
import struct
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import xarray as xr
from pyspark.sql import SparkSession

import frazil
import frazil.spark
from frazil.spark.sources import (
    ChunkTable,
    Source,
    SourceFormat,
    Storage,
    StoredAs,
    file_mark,
    local_path,
    register_source_format,
    row_chunks,
)

HEADER = "<4siii"  # magic, hour, rows, columns
HEADER_BYTES = struct.calcsize(HEADER)


def read_header(source: Source) -> tuple[int, tuple[int, int]]:
    with local_path(source) as path, Path(path).open("rb") as file:
        magic, hour, rows, columns = struct.unpack(HEADER, file.read(HEADER_BYTES))
    if magic != b"TOY1":
        raise ValueError(f"begins with {magic!r}")  # becomes a FormatError that names the file
    return hour, (rows, columns)


def open_toy(source: Source, _group: str | None) -> xr.Dataset:
    """Opens one file. `time` is a scalar, so each file is one step of it."""
    hour, shape = read_header(source)
    with local_path(source) as path:  # the file, or a temporary copy of a remote one
        values = np.fromfile(path, "<f4", offset=HEADER_BYTES).reshape(shape)
    time = xr.Variable((), np.int32(hour), {"units": "hours since 2024-03-01"})
    return xr.Dataset({"t2m": (("y", "x"), values, {"units": "K"}), "time": time})


def toy_storage(source: Source, names: list[str], _group: str | None) -> dict[str, Storage]:
    """Storage of each variable for Zarr arrays that refer to it, or why that is impossible."""
    stored = StoredAs(
        chunks=read_header(source)[1],
        data_type="float32",
        codecs=json.dumps([{"name": "bytes", "configuration": {"endian": "little"}}]),
        fill=None,
        is_row=True,  # contiguous: any number of rows may be a chunk
    )
    return {name: stored if name == "t2m" else "values in the header" for name in names}


def toy_chunks(
    source: Source, _name: str, chunks: tuple[int, ...], _group: str | None
) -> ChunkTable:
    """Offset and length of each chunk in the file."""
    index, size = row_chunks(read_header(source)[1], chunks, itemsize=4)
    offset = HEADER_BYTES + size * np.arange(len(index), dtype=np.uint64)
    length = np.full(len(index), size, np.uint64)
    return ChunkTable(index, offset, length, (source.path,), file_mark(source).modified_s)


TOY = SourceFormat(
    name="toy",
    suffixes=(".toy",),
    magics=(b"TOY1",),
    open=open_toy,
    storage=toy_storage,  # without these two the format is copied, never virtual
    chunks=toy_chunks,
)


def make_files(folder: Path) -> None:
    for hour in range(3):
        values = (280 + hour + np.arange(12) / 10).astype("<f4")
        data = struct.pack(HEADER, b"TOY1", hour, 3, 4) + values.tobytes()
        (folder / f"hour{hour}.toy").write_bytes(data)


def main(spark: SparkSession, folder: str) -> None:
    register_source_format(TOY)
    make_files(Path(folder))
    repo = frazil.Repository.create(frazil.local_filesystem_storage(f"{folder}/copied"))
    done = frazil.spark.ingest(spark, f"{folder}/*.toy", repo, concat_dim="time", progress=False)
    print("copied:", done.files, "files,", done.chunks, "chunks")

    config = frazil.RepositoryConfig.default()
    store = frazil.local_filesystem_store(folder)
    prefix = f"file://{folder}/"
    config.set_virtual_chunk_container(frazil.VirtualChunkContainer(prefix, store))
    virtual = frazil.Repository.create(
        frazil.local_filesystem_storage(f"{folder}/virtual"),
        config,
        authorize_virtual_chunk_access={prefix: frazil.credentials.LocalFileSystemAccess},
    )
    done = frazil.spark.ingest(
        spark, f"{folder}/*.toy", virtual, concat_dim="time", virtual=True, progress=False
    )
    print("virtual:", done.files, "files,", done.virtual_chunks, "references")

    both = [xr.open_zarr(r.readonly_session("main").store) for r in (repo, virtual)]
    print("equal:", both[0].load().equals(both[1].load()))
    print("mean:", both[0].t2m.mean(("y", "x"), dtype="f8").values.round(2).tolist())


if __name__ == "__main__":
    with TemporaryDirectory() as made:
        main(frazil.spark.session(app_name="example"), made)
