"""TIFF and GeoTIFF files: one variable, with coordinates where the file tells where it lies."""

import warnings
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from frazil.errors import InvalidInputError
from frazil.spark.sources.errors import source_errors_as_ours
from frazil.spark.sources.files import readable
from frazil.spark.sources.lazily import Key, lazy_variable
from frazil.spark.sources.source import Source

if TYPE_CHECKING:
    import xarray as xr

_LONGEST_INTEGER = 20  # characters
VARIABLE = "band_data"  # as rioxarray calls it
_DIMS = {"Y": "y", "X": "x", "S": "band", "Z": "z", "T": "time", "C": "channel", "I": "page"}


def open_tiff(source: Source) -> "xr.Dataset":
    """The first image of the file, which is read as a whole when it is looked at."""
    import xarray as xr  # noqa: PLC0415 -- of the extra `ingest`, and slow to load

    tifffile = require_tifffile(source)
    with (
        source_errors_as_ours(source.path),
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
        with source_errors_as_ours(source.path), readable(source) as opened:
            return np.asarray(tifffile.imread(opened, series=0))

    def read(key: Key) -> npt.NDArray[Any]:
        return np.asarray(image()[key])

    coords = {name: ((name,), line) for name, line in _coordinates(tags, sizes).items()}
    return xr.Dataset({VARIABLE: lazy_variable(dims, shape, dtype, read, attrs), **coords})


def find_nodata(text: str, dtype: np.dtype[Any]) -> Any:
    """GDAL's text of the value that marks missing pixels, in the dtype of the pixels.

    None for one that no pixel can have, such as -9999 of bytes: GDAL then finds none missing.
    """
    number = _number(text)
    if number is None:
        return None
    if dtype.kind in "biu":  # nothing that would be rounded or wrapped
        value = int(number) if np.isfinite(float(number)) else None
        low, high = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        fits = value is not None and value == number and low <= value <= high
        return dtype.type(value) if fits else None
    with np.errstate(over="ignore"):
        found = np.asarray(float(number)).astype(dtype)[()]
    return None if np.isinf(found) and not np.isinf(float(number)) else found


def _number(text: str) -> int | float | None:
    for kind in (int, float):  # the former holds all of 64 bits
        try:
            return kind(text) if kind is float or len(text) <= _LONGEST_INTEGER else float(text)
        except ValueError:
            continue
    return None


def require_tifffile(source: Source) -> Any:
    """The library."""
    try:
        import tifffile  # noqa: PLC0415 -- of the extra `ingest`, and slow to load
    except ModuleNotFoundError as error:
        raise InvalidInputError(f"{source.path}: reading TIFF needs tifffile") from error
    return tifffile


def _coordinates(tags: dict[str, Any], sizes: dict[str, int]) -> dict[str, npt.NDArray[np.float64]]:
    """Centres of the cells, from the two tags of a grid that is not rotated."""
    scale, tie = tags.get("ModelPixelScaleTag"), tags.get("ModelTiepointTag")
    if not scale or not tie or len(tie) != 6:
        return {}
    i, j, _, x, y, _ = tie
    return {
        "x": x + (np.arange(sizes.get("x", 0)) + 0.5 - i) * scale[0],
        "y": y - (np.arange(sizes.get("y", 0)) + 0.5 - j) * scale[1],
    }
