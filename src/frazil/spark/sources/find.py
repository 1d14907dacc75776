"""From what a user names (paths, patterns, directories) to the list of sources."""

import glob
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from os import PathLike, fspath
from pathlib import Path

from frazil.errors import InvalidInputError, ObjectNotFoundError
from frazil.spark.sources.netcdf import SUFFIXES
from frazil.spark.sources.netcdf3 import MAGICS
from frazil.spark.sources.zarr import is_zarr

type SourceName = str | PathLike[str]


class SourceKind(StrEnum):
    NETCDF = "netcdf"  # 4, and other HDF5
    NETCDF3 = "netcdf3"
    ZARR = "zarr"
    GRIB = "grib"
    TIFF = "tiff"


_NAMES = {
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
_TIFF_MAGICS = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")


@dataclass(frozen=True, slots=True)
class Source:
    """A file or Zarr store. The path is absolute, so that it means the same on executors."""

    kind: SourceKind
    path: str


def find_sources(
    names: SourceName | Iterable[SourceName], *, kind: SourceKind | None = None
) -> tuple[Source, ...]:
    """The sources in the order named; those of one pattern or directory sorted by path.

    What a file is, is told by how it begins, and by its name where that says nothing, unless
    `kind` does. Raises ObjectNotFoundError for a name that leads to nothing, InvalidInputError
    for a source named twice.
    """
    if isinstance(names, str | PathLike):
        names = [names]
    found = [source for name in names for source in _expand(fspath(name), kind)]
    if not found:
        raise InvalidInputError("no sources given")
    seen: set[str] = set()
    for source in found:
        if source.path in seen:
            raise InvalidInputError(f"{source.path}: named twice among the sources")
        seen.add(source.path)
    return tuple(found)


def parse_kind(text: str | None) -> SourceKind | None:
    """Of what a user calls a format; None is for guessing."""
    if text is None:
        return None
    kind = _NAMES.get(text.casefold())
    if kind is None:
        raise InvalidInputError(f"format is {text!r}, expected one of {', '.join(sorted(_NAMES))}")
    return kind


def _expand(name: str, kind: SourceKind | None) -> list[Source]:
    path = Path(name)
    if path.exists():
        if path.is_dir() and not is_zarr(path):
            return _in_directory(path, kind)
        return [_source(path, kind)]
    matches = sorted(glob.glob(name, recursive=True))  # noqa: PTH207  Path.glob takes no absolute pattern
    if not matches:
        raise ObjectNotFoundError(name)
    return [_source(Path(match), kind) for match in matches]


def _in_directory(directory: Path, kind: SourceKind | None) -> list[Source]:
    known = {*SUFFIXES, *_BY_SUFFIX}
    found = [
        _source(entry, kind)
        for entry in sorted(directory.iterdir())
        if (is_zarr(entry) if entry.is_dir() else entry.suffix.lower() in known)
    ]
    if not found:
        raise ObjectNotFoundError(f"{directory}/*")
    return found


def _source(path: Path, kind: SourceKind | None) -> Source:
    absolute = str(path.absolute())
    if not path.is_dir():
        return Source(_guess(path) if kind is None else kind, absolute)
    if is_zarr(path) and kind in {None, SourceKind.ZARR}:
        return Source(SourceKind.ZARR, absolute)
    raise InvalidInputError(f"{path}: a directory that is not a Zarr store")


def _guess(path: Path) -> SourceKind:
    try:
        with path.open("rb") as file:
            begins = file.read(4)
    except OSError:
        begins = b""  # whoever opens it will say what is wrong
    if begins in MAGICS:
        return SourceKind.NETCDF3
    if begins == b"GRIB":
        return SourceKind.GRIB
    if begins in _TIFF_MAGICS:
        return SourceKind.TIFF
    return _BY_SUFFIX.get(path.suffix.lower(), SourceKind.NETCDF)
