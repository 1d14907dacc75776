"""TIFF and GeoTIFF files: one variable, with coordinates where the file tells where it lies."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from frazil.errors import InvalidInputError
from frazil.spark.sources.errors import source_errors_as_ours

if TYPE_CHECKING:
    import xarray as xr

VARIABLE = "band_data"  # as rioxarray calls it
_DIMS = {"Y": "y", "X": "x", "S": "band", "Z": "z", "T": "time", "C": "channel", "I": "page"}


def open_tiff(path: str) -> "xr.Dataset":
    """The first image of the file, whole."""
    import xarray as xr  # noqa: PLC0415 -- of the extra `ingest`, and slow to load

    try:
        import tifffile  # noqa: PLC0415 -- see above
    except ModuleNotFoundError as error:
        raise InvalidInputError(f"{path}: reading TIFF needs tifffile") from error

    with source_errors_as_ours(path):
        Path(path).stat()
        with tifffile.TiffFile(path) as file:
            series = file.series[0]
            values = series.asarray()
            dims = tuple(
                _DIMS.get(axis, f"dim_{number}") for number, axis in enumerate(series.axes)
            )
            page: Any = series.pages[0]
            tags = {tag.name: tag.value for tag in page.tags.values()}
    sizes = dict(zip(dims, values.shape, strict=True))
    attrs: dict[str, Any] = {}
    if "GDAL_NODATA" in tags:
        attrs["_FillValue"] = values.dtype.type(str(tags["GDAL_NODATA"]).strip("\0 "))
    coords = {name: ((name,), line) for name, line in _coordinates(tags, sizes).items()}
    return xr.Dataset({VARIABLE: (dims, values, attrs), **coords})


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
