"""NetCDF4 and other HDF5 files: described through h5netcdf, read through h5py."""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from frazil.errors import FormatError, InvalidInputError
from frazil.references.zarr_v2 import codec_documents
from frazil.spark.sources.source_dataset import join_characters, normalize, read_slab
from frazil.spark.sources.source_errors import source_errors
from frazil.spark.sources.source_files import file_mark, open_readable, readable
from frazil.spark.sources.source_types import (
    ChunkTable,
    Source,
    SourceFormat,
    Storage,
    StoredAs,
    row_chunks,
)

if TYPE_CHECKING:
    import h5py
    import xarray as xr

_COMPRESSORS = ("blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd")  # of blosc, by number
_CHARACTER = np.dtype("S1")


def open_netcdf(source: Source, group: str | None) -> "xr.Dataset":
    """Opens it undecoded and lazy. Dimensions without a name are called `phony_dim_0` and so on."""
    import xarray as xr  # noqa: PLC0415 -- of the extra `ingest`, and slow to load

    with source_errors(source.path):
        dataset = xr.open_dataset(
            open_readable(source),  # type: ignore[arg-type]  # any open file will do
            engine="h5netcdf",
            group=group,
            decode_cf=False,
            chunks=None,
            cache=False,
            phony_dims="access",
        )
        joined = join_characters(dataset)
        if joined is not dataset:
            joined.set_close(dataset.close)
        return joined


class NetcdfReader:
    """Slabs of one file. Opens in 0.2 ms; `open_netcdf` takes 38 ms (a file of the demo, CPU)."""

    def __init__(
        self, source: Source, group: str | None, open_dataset: "Callable[[], xr.Dataset]"
    ) -> None:
        """`open_dataset` is called for variables that HDF5 stores in another shape."""
        import h5py  # noqa: PLC0415 -- of the extra `ingest`, and slow to load

        self._path = source.path
        self._group = group
        self._open_dataset = open_dataset
        with source_errors(source.path):
            self._file = h5py.File(open_readable(source), "r")

    def read(self, name: str, selection: tuple[slice, ...]) -> npt.NDArray[np.generic]:
        with source_errors(self._path):
            stored = self._file[self._group or "/"][name]
            if stored.dtype != _CHARACTER and _covers(stored.shape, selection):
                return normalize(np.asarray(stored[selection]))
        # Character arrays have one dimension more than their text (and may lack a dimension that
        # was added, so that ndim alone does not tell), a source that is one step has one less, and
        # along an unlimited dimension a variable may be stored shorter than the dimension.
        with self._open_dataset() as dataset:
            return read_slab(dataset, name, selection)

    def close(self) -> None:
        self._file.close()


def _covers(shape: tuple[int, ...], selection: tuple[slice, ...]) -> bool:
    return len(shape) == len(selection) and all(
        part.stop <= length for part, length in zip(selection, shape, strict=True)
    )


def hdf5_storage(source: Source, names: list[str], group: str | None) -> dict[str, Storage]:
    import h5py  # noqa: PLC0415 -- of the extra `ingest`, and slow to load

    with (
        source_errors(source.path),
        readable(source) as opened,
        h5py.File(opened, "r") as file,
    ):
        parent = file[group or "/"]
        return {name: _storage(parent[name]) for name in names}


def hdf5_chunks(
    source: Source, name: str, chunks: tuple[int, ...], group: str | None
) -> ChunkTable:
    """Finds the chunks. Raises FormatError if the file was changed after it was described."""
    import h5py  # noqa: PLC0415 -- of the extra `ingest`, and slow to load

    path = source.path
    with source_errors(path), readable(source) as opened, h5py.File(opened, "r") as file:
        stored = file[group or "/"][name]
        modified = file_mark(source).modified_s
        if stored.chunks is None:
            return _contiguous_table(path, stored, chunks, modified)
        if stored.chunks != chunks:
            raise FormatError(f"variable {name!r} has chunks of {stored.chunks}", where=path)
        return _chunk_table(path, stored, modified)


def _storage(stored: "h5py.Dataset") -> Storage:
    if stored.dtype.kind not in "biufc" or stored.dtype.itemsize > 16:
        return f"type {stored.dtype}"
    if stored.is_virtual or stored.external:
        return "values that are in other files"
    shape = tuple(max(1, length) for length in stored.shape)
    if stored.chunks is None and stored.id.get_offset() is None and stored.size:
        return "values in the header of the file"
    codecs = _codecs(stored, stored.chunks or shape)
    if isinstance(codecs, str):
        return codecs
    return StoredAs(
        chunks=stored.chunks or shape,
        data_type=stored.dtype.newbyteorder("=").name,
        codecs=json.dumps(codecs),
        fill=_fill(stored.fillvalue),
        is_row=stored.chunks is None,
    )


def _codecs(stored: "h5py.Dataset", chunks: tuple[int, ...]) -> list[dict[str, Any]] | str:
    dtype = stored.dtype
    properties = stored.id.get_create_plist()
    filters = []
    for number in range(properties.get_nfilters()):
        code, _, options, name = properties.get_filter(number)
        codec = _filter(code, options, dtype.itemsize)
        if codec is None:
            return f"HDF5's filter {code} ({name.decode(errors='replace')})"
        filters.append(codec)
    endian = "big" if dtype.newbyteorder("S").isnative else "little"
    try:
        return codec_documents(
            filters,
            None,
            order="C",
            ndim=len(chunks),
            endian=None if dtype.itemsize == 1 else endian,
            itemsize=dtype.itemsize,
        )
    except InvalidInputError as error:
        return str(error)


def _filter(code: int, options: tuple[int, ...], itemsize: int) -> dict[str, Any] | None:
    """Codec that decodes it; None if there is none."""
    match code:  # a number of HDF5's registry
        case 1:
            return {"id": "zlib", "level": options[0] if options else 1}
        case 2:
            return {"id": "shuffle", "elementsize": options[0] if options else itemsize}
        case 3:
            return {"id": "fletcher32"}
        case 32001 if len(options) > 6 and options[6] < len(_COMPRESSORS):
            return {
                "id": "blosc",
                "cname": _COMPRESSORS[options[6]],
                "clevel": options[4],
                "shuffle": options[5],
            }
        case 32015:
            return {"id": "zstd", "level": options[0] if options else 3}
        case _:
            return None


def _fill(value: Any) -> str:
    scalar = np.asarray(value).reshape(-1)[0]
    match scalar.item():
        case bool() | int() as plain:
            return json.dumps(plain)
        case float() as real:
            return json.dumps(_number(real))
        case complex() as both:
            return json.dumps([_number(both.real), _number(both.imag)])
        case other:
            raise InvalidInputError(f"fill value {other!r}")


def _number(value: float) -> float | str:
    if np.isfinite(value):
        return value
    return "NaN" if np.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _contiguous_table(
    path: str, stored: "h5py.Dataset", chunks: tuple[int, ...], modified: int
) -> ChunkTable:
    first = stored.id.get_offset()
    if first is None or not stored.size:  # never written
        nothing = np.zeros(0, dtype=np.uint64)
        return ChunkTable(
            np.zeros((0, len(chunks)), dtype=np.int64), nothing, nothing, (path,), modified
        )
    index, size = row_chunks(stored.shape, chunks, stored.dtype.itemsize)
    offset = np.uint64(first) + np.arange(len(index), dtype=np.uint64) * np.uint64(size)
    return ChunkTable(index, offset, np.full(len(index), size, np.uint64), (path,), modified)


def _chunk_table(path: str, stored: "h5py.Dataset", modified: int) -> ChunkTable:
    rows: list[tuple[Any, ...]] = []

    def append(info: Any) -> None:
        if info.filter_mask:
            raise FormatError(
                f"variable {stored.name!r} has a chunk at {info.chunk_offset} that was stored"
                " without some of its filters: it cannot be virtual",
                where=path,
            )
        rows.append((*info.chunk_offset, info.byte_offset, info.size))

    stored.id.chunk_iter(append)
    ndim = len(stored.shape)
    columns = np.array(rows, dtype=np.int64).reshape(-1, ndim + 2)
    index = columns[:, :ndim] // np.array(stored.chunks, dtype=np.int64)
    # An array that was shrunk may still have chunks outside of its shape.
    inside = (columns[:, :ndim] < np.array(stored.shape, dtype=np.int64)).all(axis=1)
    return ChunkTable(
        index[inside],
        columns[inside, ndim].astype(np.uint64),
        columns[inside, ndim + 1].astype(np.uint64),
        (path,),
        modified,
    )


NETCDF = SourceFormat(
    name="netcdf",
    aliases=("netcdf4", "hdf5"),
    suffixes=(".nc", ".nc4", ".cdf", ".netcdf", ".h5", ".hdf5", ".he5"),
    open=open_netcdf,
    storage=hdf5_storage,
    chunks=hdf5_chunks,
    reader=NetcdfReader,
)
