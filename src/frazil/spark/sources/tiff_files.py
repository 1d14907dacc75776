"""TIFF and GeoTIFF files: one variable, with coordinates if the file is georeferenced.

tiles        are chunks; those at the edges are full
strips       are chunks; the last one, if it is short, is padded, and cannot be virtual
contiguous   raw images are chunks of any number of rows; so is a whole stack of them
"""

import json
import warnings
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from frazil.errors import FormatError, InvalidInputError
from frazil.references.zarr_v2 import codec_documents
from frazil.spark.sources.source_dataset import Key, lazy_variable
from frazil.spark.sources.source_errors import source_errors
from frazil.spark.sources.source_files import file_mark, readable
from frazil.spark.sources.source_types import (
    ChunkTable,
    Source,
    SourceFormat,
    Storage,
    StoredAs,
    row_chunks,
)
from frazil.zarrstore.array_codecs import decode_chunk, encode_region

if TYPE_CHECKING:
    import xarray as xr

_LONGEST_INTEGER = 20  # characters
VARIABLE = "band_data"  # as rioxarray calls it
_DIMS = {"Y": "y", "X": "x", "S": "band", "Z": "z", "T": "time", "C": "channel", "I": "page"}
# Codecs by TIFF's numbers of compressions.
_COMPRESSIONS: dict[int, dict[str, Any] | None] = {
    1: None,
    8: {"id": "zlib", "level": 1},
    32946: {"id": "zlib", "level": 1},
    50000: {"id": "zstd", "level": 0},
}
_NO_PREDICTOR = 1


def open_tiff(source: Source, _group: str | None) -> "xr.Dataset":
    """Opens the first image of the file; it is read as a whole on first access."""
    import xarray as xr  # noqa: PLC0415 -- of the extra `ingest`, and slow to load

    tifffile = require_tifffile(source)
    with (
        source_errors(source.path),
        readable(source) as opened,
        tifffile.TiffFile(opened) as file,
    ):
        series = file.series[0]
        dims = tuple(_DIMS.get(axis, f"dim_{number}") for number, axis in enumerate(series.axes))
        shape = tuple(int(length) for length in series.shape)
        dtype = np.dtype(series.dtype)
        page: Any = series.pages[0]
        tags = {tag.name: tag.value for tag in page.tags.values()}
    sizes = dict(zip(dims, shape, strict=True))
    attrs: dict[str, Any] = {}
    if "GDAL_NODATA" in tags:
        text = str(tags["GDAL_NODATA"]).strip("\0 ")
        nodata = find_nodata(text, dtype)
        if nodata is None:
            message = f"{source.path}: nodata {text!r} is no value of {dtype}, and ignored"
            warnings.warn(message, stacklevel=2)
        else:
            attrs["_FillValue"] = nodata

    @cache
    def image() -> npt.NDArray[Any]:
        with source_errors(source.path), readable(source) as opened:
            return np.asarray(tifffile.imread(opened, series=0))

    def read(key: Key) -> npt.NDArray[Any]:
        return np.asarray(image()[key])

    coords = {name: ((name,), line) for name, line in _coordinates(tags, sizes).items()}
    return xr.Dataset({VARIABLE: lazy_variable(dims, shape, dtype, read, attrs), **coords})


def find_nodata(text: str, dtype: np.dtype[Any]) -> Any:
    """Parses GDAL's value for missing pixels, in the dtype of the pixels.

    None for one that no pixel can have, such as -9999 of bytes: to GDAL no pixel is missing then.
    """
    number = _number(text)
    if number is None:
        return None
    if dtype.kind in "biu":  # a value that would be rounded or wrapped is none
        value = int(number) if np.isfinite(float(number)) else None
        low, high = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        fits = value is not None and value == number and low <= value <= high
        return dtype.type(value) if fits else None
    with np.errstate(over="ignore"):
        nodata = np.asarray(float(number)).astype(dtype)[()]
    return None if np.isinf(nodata) and not np.isinf(float(number)) else nodata


def _number(text: str) -> int | float | None:
    for kind in (int, float):  # int holds all values of 64 bits
        try:
            return kind(text) if kind is float or len(text) <= _LONGEST_INTEGER else float(text)
        except ValueError:
            continue
    return None


def require_tifffile(source: Source) -> Any:
    """Returns the library."""
    try:
        import tifffile  # noqa: PLC0415 -- of the extra `ingest`, and slow to load
    except ModuleNotFoundError as error:
        raise InvalidInputError(f"{source.path}: reading TIFF needs tifffile") from error
    return tifffile


def _coordinates(tags: dict[str, Any], sizes: dict[str, int]) -> dict[str, npt.NDArray[np.float64]]:
    """Centres of the pixels, from the two tags of a grid that is not rotated."""
    scale, tie = tags.get("ModelPixelScaleTag"), tags.get("ModelTiepointTag")
    if not scale or not tie or len(tie) != 6:
        return {}
    i, j, _, x, y, _ = tie
    return {
        "x": x + (np.arange(sizes.get("x", 0)) + 0.5 - i) * scale[0],
        "y": y - (np.arange(sizes.get("y", 0)) + 0.5 - j) * scale[1],
    }


def tiff_storage(source: Source, names: list[str], _group: str | None) -> dict[str, Storage]:
    """Storage of each variable. Coordinates are computed from tags."""
    tifffile = require_tifffile(source)
    with (
        source_errors(source.path),
        readable(source) as opened,
        tifffile.TiffFile(opened) as file,
    ):
        image = _storage(file.series[0], file.byteorder)
    return {name: image if name == VARIABLE else "values that are in tags" for name in names}


def tiff_chunks(
    source: Source, name: str, chunks: tuple[int, ...], _group: str | None
) -> ChunkTable:
    """Finds the chunks. Raises FormatError if the file was changed after it was described."""
    tifffile = require_tifffile(source)
    with (
        source_errors(source.path),
        readable(source) as opened,
        tifffile.TiffFile(opened) as file,
    ):
        modified = file_mark(source).modified_s
        series = file.series[0]
        stored = _storage(series, file.byteorder)
        if isinstance(stored, str) or stored.cut(chunks[0]).chunks != chunks:
            raise FormatError(f"variable {name!r} is not as it was", where=source.path)
        if stored.is_row:
            return _contiguous_table(source, series, chunks, modified)
        return _page_table(source, file, stored, modified)


def _storage(series: Any, byteorder: str) -> Storage:
    page, shape = series.keyframe, tuple(int(length) for length in series.shape)
    dtype = np.dtype(series.dtype)
    problem = _problem(page, dtype)
    if problem is not None:
        return problem
    is_contiguous = series.dataoffset is not None
    chunks = (*(1,) * (len(shape) - len(page.chunks)), *map(int, page.chunks))
    if not is_contiguous and prod(shape) != prod(page.shape) * len(series.pages):
        return "pages that do not make the image"
    endian = {"<": "little", ">": "big"}[byteorder] if dtype.itemsize > 1 else None
    compressor = _COMPRESSIONS[int(page.compression)]
    codecs = codec_documents(
        [], compressor, order="C", ndim=len(shape), endian=endian, itemsize=dtype.itemsize
    )
    return StoredAs(
        chunks=tuple(max(1, length) for length in shape) if is_contiguous else chunks,
        data_type=dtype.newbyteorder("=").name,
        codecs=json.dumps(codecs),
        fill=_fill(page.nodata, dtype),
        is_row=is_contiguous,
    )


def _problem(page: Any, dtype: np.dtype[Any]) -> str | None:
    """Reason why zarr has no codec for it; None if it has."""
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
    """Fill value of tiles that were never written, as JSON."""
    scalar = np.asarray(value, dtype).item()
    if isinstance(scalar, complex) or np.isinf(scalar):
        return None
    return json.dumps("NaN" if np.isnan(scalar) else scalar)


def _contiguous_table(
    source: Source, series: Any, chunks: tuple[int, ...], modified: int
) -> ChunkTable:
    index, size = row_chunks(tuple(series.shape), chunks, np.dtype(series.dtype).itemsize)
    first = np.uint64(series.dataoffset)
    offset = first + np.arange(len(index), dtype=np.uint64) * np.uint64(size)
    return ChunkTable(index, offset, np.full(len(index), size, np.uint64), (source.path,), modified)


def _page_table(source: Source, file: Any, stored: StoredAs, modified: int) -> ChunkTable:
    series = file.series[0]
    frame = series.keyframe
    grid = tuple(int(count) for count in frame.chunked)
    leading = tuple(series.shape)[: len(stored.chunks) - len(grid)]
    offsets, lengths = [], []
    for page in series.pages:
        is_missing = page is None
        offsets.append((0,) * prod(grid) if is_missing else page.dataoffsets)
        lengths.append((0,) * prod(grid) if is_missing else page.databytecounts)
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
    """Rows of the table whose strips have fewer lines than the others."""
    page, axis = series.keyframe, series.axes.index("Y")
    if page.is_tiled or not series.shape[axis] % page.rowsperstrip:
        return []
    last = series.shape[axis] // page.rowsperstrip
    rows: list[int] = np.flatnonzero(index[:, axis] == last).tolist()
    return rows


def _short_shape(series: Any, stored: StoredAs) -> tuple[int, ...]:
    axis = series.axes.index("Y")
    rest = int(series.shape[axis]) % stored.chunks[axis]
    return (*stored.chunks[:axis], rest, *stored.chunks[axis + 1 :])


def pad_chunk(stored: StoredAs, shape: tuple[int, ...], data: bytes) -> bytes:
    """Encodes a partial chunk of this `shape` again, padded with the fill value.

    In Zarr all chunks have one shape. Empty if there is nothing but the fill value.
    """
    values = decode_chunk(_array_document(stored, shape), data)
    fill = json.loads(stored.fill or "0")
    full = np.full(stored.chunks, np.nan if fill == "NaN" else fill, values.dtype)
    full[tuple(slice(0, length) for length in shape)] = values
    everywhere = tuple(slice(0, length) for length in stored.chunks)
    chunks = encode_region(_array_document(stored, stored.chunks), everywhere, full)
    return b"".join(bytes(chunk) for chunk in chunks.values())


def _array_document(stored: StoredAs, shape: tuple[int, ...]) -> bytes:
    """Metadata (`zarr.json`) of an array that has one such chunk."""
    return json.dumps(
        {
            "zarr_format": 3,
            "node_type": "array",
            "shape": list(shape),
            "data_type": stored.data_type,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(shape)}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": json.loads(stored.fill or "0"),
            "codecs": json.loads(stored.codecs),
            "attributes": {},
        }
    ).encode()


TIFF = SourceFormat(
    name="tiff",
    aliases=("geotiff",),
    suffixes=(".tif", ".tiff", ".gtiff"),
    magics=(b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"),
    open=open_tiff,
    storage=tiff_storage,
    chunks=tiff_chunks,
    is_step=True,
)
