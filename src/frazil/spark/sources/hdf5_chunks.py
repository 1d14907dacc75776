"""Where the chunks of variables in NetCDF4 and other HDF5 files are, and how they are encoded."""

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from frazil.errors import FormatError, InvalidInputError
from frazil.references.zarr_v2 import codec_documents
from frazil.spark.sources.errors import source_errors_as_ours
from frazil.spark.sources.files import mark_of, readable
from frazil.spark.sources.source import Source
from frazil.spark.sources.stored import ChunkTable, Storage, StoredAs, row_chunks

if TYPE_CHECKING:
    import h5py

_COMPRESSORS = ("blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd")  # of blosc, by number


def hdf5_storage(source: Source, names: list[str], *, group: str | None) -> dict[str, Storage]:
    """By variable, how it is stored."""
    import h5py  # noqa: PLC0415 -- of the extra `ingest`, and slow to load

    with (
        source_errors_as_ours(source.path),
        readable(source) as opened,
        h5py.File(opened, "r") as file,
    ):
        within = file[group or "/"]
        return {name: _storage(within[name]) for name in names}


def hdf5_chunks(
    source: Source, name: str, chunks: tuple[int, ...], *, group: str | None
) -> ChunkTable:
    """Raises FormatError for a file that is not as it was described."""
    import h5py  # noqa: PLC0415 -- of the extra `ingest`, and slow to load

    path = source.path
    with source_errors_as_ours(path), readable(source) as opened, h5py.File(opened, "r") as file:
        stored = file[group or "/"][name]
        modified = mark_of(source).modified_s
        if stored.chunks is None:
            return _in_one_piece(path, stored, chunks, modified)
        if stored.chunks != chunks:
            raise FormatError(f"variable {name!r} has chunks of {stored.chunks}", where=path)
        return _chunked(path, stored, modified)


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
        found = _filter(code, options, dtype.itemsize)
        if found is None:
            return f"HDF5's filter {code} ({name.decode(errors='replace')})"
        filters.append(found)
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
    """The codec that undoes it."""
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


def _in_one_piece(
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


def _chunked(path: str, stored: "h5py.Dataset", modified: int) -> ChunkTable:
    found: list[tuple[Any, ...]] = []

    def take(info: Any) -> None:
        if info.filter_mask:
            raise FormatError(
                f"variable {stored.name!r} has a chunk at {info.chunk_offset} that was stored"
                " without some of its filters: it cannot be virtual",
                where=path,
            )
        found.append((*info.chunk_offset, info.byte_offset, info.size))

    stored.id.chunk_iter(take)
    ndim = len(stored.shape)
    columns = np.array(found, dtype=np.int64).reshape(-1, ndim + 2)
    index = columns[:, :ndim] // np.array(stored.chunks, dtype=np.int64)
    # Chunks may be left behind outside when an array was made smaller.
    inside = (columns[:, :ndim] < np.array(stored.shape, dtype=np.int64)).all(axis=1)
    return ChunkTable(
        index[inside],
        columns[inside, ndim].astype(np.uint64),
        columns[inside, ndim + 1].astype(np.uint64),
        (path,),
        modified,
    )
