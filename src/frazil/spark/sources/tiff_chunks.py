"""Where the strips and tiles of TIFF files are, and how they are encoded.

tiles               chunks; those at the edges are full
strips              chunks; the last one, if it is short, is padded, and cannot be virtual
raw, in one piece   chunks of any number of rows, of a whole stack of images too
"""

import json
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from frazil.errors import FormatError
from frazil.references.zarr_v2 import codec_documents
from frazil.spark.sources.errors import source_errors_as_ours
from frazil.spark.sources.files import mark_of, readable
from frazil.spark.sources.padding import pad_chunk
from frazil.spark.sources.source import Source
from frazil.spark.sources.stored import ChunkTable, Storage, StoredAs, row_chunks
from frazil.spark.sources.tiff import VARIABLE, require_tifffile

# By TIFF's numbers, the codec that undoes it.
_COMPRESSIONS: dict[int, dict[str, Any] | None] = {
    1: None,
    8: {"id": "zlib", "level": 1},
    32946: {"id": "zlib", "level": 1},
    50000: {"id": "zstd", "level": 0},
}
_NO_PREDICTOR = 1


def tiff_storage(source: Source, names: list[str]) -> dict[str, Storage]:
    """By variable, how it is stored. Coordinates are computed from tags."""
    tifffile = require_tifffile(source)
    with (
        source_errors_as_ours(source.path),
        readable(source) as opened,
        tifffile.TiffFile(opened) as file,
    ):
        image = _storage(file.series[0], file.byteorder)
    return {name: image if name == VARIABLE else "values that are in tags" for name in names}


def tiff_chunks(source: Source, name: str, chunks: tuple[int, ...]) -> ChunkTable:
    """Raises FormatError for a file that is not as it was described."""
    tifffile = require_tifffile(source)
    with (
        source_errors_as_ours(source.path),
        readable(source) as opened,
        tifffile.TiffFile(opened) as file,
    ):
        modified = mark_of(source).modified_s
        series = file.series[0]
        stored = _storage(series, file.byteorder)
        if isinstance(stored, str) or stored.cut(chunks[0]).chunks != chunks:
            raise FormatError(f"variable {name!r} is not as it was", where=source.path)
        if stored.is_row:
            return _in_one_piece(source, series, chunks, modified)
        return _pages(source, file, stored, modified)


def _storage(series: Any, byteorder: str) -> Storage:
    page, shape = series.keyframe, tuple(int(length) for length in series.shape)
    dtype = np.dtype(series.dtype)
    problem = _problem(page, dtype)
    if problem is not None:
        return problem
    in_one_piece = series.dataoffset is not None
    chunks = (*(1,) * (len(shape) - len(page.chunks)), *map(int, page.chunks))
    if not in_one_piece and prod(shape) != prod(page.shape) * len(series.pages):
        return "pages that do not make the image"
    endian = {"<": "little", ">": "big"}[byteorder] if dtype.itemsize > 1 else None
    compressor = _COMPRESSIONS[int(page.compression)]
    codecs = codec_documents(
        [], compressor, order="C", ndim=len(shape), endian=endian, itemsize=dtype.itemsize
    )
    return StoredAs(
        chunks=tuple(max(1, length) for length in shape) if in_one_piece else chunks,
        data_type=dtype.newbyteorder("=").name,
        codecs=json.dumps(codecs),
        fill=_fill(page.nodata, dtype),
        is_row=in_one_piece,
    )


def _problem(page: Any, dtype: np.dtype[Any]) -> str | None:
    """What zarr has no codec for."""
    if int(page.compression) not in _COMPRESSIONS:
        return f"TIFF's compression {int(page.compression)} ({page.compression.name})"
    if int(page.predictor) != _NO_PREDICTOR:
        return f"TIFF's predictor {int(page.predictor)}"
    if dtype.kind not in "biufc" or page.bitspersample != 8 * dtype.itemsize:
        return f"values of {page.bitspersample} bits"
    if int(page.fillorder) != 1:
        return "bits in reverse order"
    if page.is_subsampled:
        return "colours of fewer pixels"
    return None


def _fill(value: Any, dtype: np.dtype[Any]) -> str | None:
    """What tiles that were never written read as."""
    scalar = np.asarray(value, dtype).item()
    if isinstance(scalar, complex) or np.isinf(scalar):
        return None
    return json.dumps("NaN" if np.isnan(scalar) else scalar)


def _in_one_piece(
    source: Source, series: Any, chunks: tuple[int, ...], modified: int
) -> ChunkTable:
    index, size = row_chunks(tuple(series.shape), chunks, np.dtype(series.dtype).itemsize)
    first = np.uint64(series.dataoffset)
    offset = first + np.arange(len(index), dtype=np.uint64) * np.uint64(size)
    return ChunkTable(index, offset, np.full(len(index), size, np.uint64), (source.path,), modified)


def _pages(source: Source, file: Any, stored: StoredAs, modified: int) -> ChunkTable:
    series = file.series[0]
    frame = series.keyframe
    grid = tuple(int(count) for count in frame.chunked)
    leading = tuple(series.shape)[: len(stored.chunks) - len(grid)]
    offsets, lengths = [], []
    for page in series.pages:
        there = page is not None
        offsets.append(page.dataoffsets if there else (0,) * prod(grid))
        lengths.append(page.databytecounts if there else (0,) * prod(grid))
    offset, length = np.array(offsets, np.uint64).ravel(), np.array(lengths, np.uint64).ravel()
    index = np.indices((*leading, *grid), dtype=np.int64).reshape(len(stored.chunks), -1).T
    if len(index) != len(offset):
        raise FormatError(f"{len(offset)} chunks, expected {len(index)}", where=source.path)
    written = length > 0
    index, offset, length = index[written], offset[written], length[written]
    short = _short_strips(series, index)
    if int(frame.compression) == 1:
        size = prod(stored.chunks) * np.dtype(series.dtype).itemsize
        if (np.delete(length, short) != size).any():
            raise FormatError(f"chunks that are not of {size} bytes", where=source.path)
    padded = {}
    for row in short:
        file.filehandle.seek(int(offset[row]))
        data = file.filehandle.read(int(length[row]))
        padded[row] = pad_chunk(stored, _short_shape(series, stored), data)
    return ChunkTable(index, offset, length, (source.path,), modified, padded)


def _short_strips(series: Any, index: npt.NDArray[np.int64]) -> list[int]:
    """Rows of strips that have fewer lines than the others."""
    page, axis = series.keyframe, series.axes.index("Y")
    if page.is_tiled or not series.shape[axis] % page.rowsperstrip:
        return []
    last = series.shape[axis] // page.rowsperstrip
    found: list[int] = np.flatnonzero(index[:, axis] == last).tolist()
    return found


def _short_shape(series: Any, stored: StoredAs) -> tuple[int, ...]:
    axis = series.axes.index("Y")
    rest = int(series.shape[axis]) % stored.chunks[axis]
    return (*stored.chunks[:axis], rest, *stored.chunks[axis + 1 :])
