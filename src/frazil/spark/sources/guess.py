"""What kind of file it is: by how it begins, or by its name."""

from pathlib import PurePosixPath

from frazil.spark.sources.netcdf import SUFFIXES
from frazil.spark.sources.netcdf3 import MAGICS
from frazil.spark.sources.source import SourceKind

NAMES = {
    **{str(kind): kind for kind in SourceKind},
    "netcdf4": SourceKind.NETCDF,
    "hdf5": SourceKind.NETCDF,
    "grib2": SourceKind.GRIB,
    "geotiff": SourceKind.TIFF,
}
_BY_SUFFIX = {
    **dict.fromkeys((".grib", ".grb", ".grib2", ".grb2"), SourceKind.GRIB),
    **dict.fromkeys((".tif", ".tiff", ".gtiff"), SourceKind.TIFF),
}
KNOWN_SUFFIXES = frozenset({*SUFFIXES, *_BY_SUFFIX})
_TIFF_MAGICS = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")


def guess(name: str, begins: bytes) -> SourceKind:
    """`begins` are the first four bytes, or fewer if they are not to be had."""
    if begins in MAGICS:
        return SourceKind.NETCDF3
    if begins == b"GRIB":
        return SourceKind.GRIB
    if begins in _TIFF_MAGICS:
        return SourceKind.TIFF
    return _BY_SUFFIX.get(PurePosixPath(name).suffix.lower(), SourceKind.NETCDF)
