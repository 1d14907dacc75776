"""From what a user names (paths, patterns, directories) to the list of sources."""

import glob
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from os import PathLike, fspath
from pathlib import Path

from frazil.errors import InvalidInputError, ObjectNotFoundError
from frazil.spark.sources.netcdf import SUFFIXES
from frazil.spark.sources.zarr import is_zarr

type SourceName = str | PathLike[str]


class SourceKind(StrEnum):
    NETCDF = "netcdf"
    ZARR = "zarr"


@dataclass(frozen=True, slots=True)
class Source:
    """A file or Zarr store. The path is absolute, so that it means the same on executors."""

    kind: SourceKind
    path: str


def find_sources(names: SourceName | Iterable[SourceName]) -> tuple[Source, ...]:
    """The sources in the order named; those of one pattern or directory sorted by path.

    Raises ObjectNotFoundError for a name that leads to nothing, InvalidInputError for a source
    named twice.
    """
    if isinstance(names, str | PathLike):
        names = [names]
    found = [source for name in names for source in _expand(fspath(name))]
    if not found:
        raise InvalidInputError("no sources given")
    seen: set[str] = set()
    for source in found:
        if source.path in seen:
            raise InvalidInputError(f"{source.path}: named twice among the sources")
        seen.add(source.path)
    return tuple(found)


def _expand(name: str) -> list[Source]:
    path = Path(name)
    if path.exists():
        return _in_directory(path) if path.is_dir() and not is_zarr(path) else [_source(path)]
    matches = sorted(glob.glob(name, recursive=True))  # noqa: PTH207  Path.glob takes no absolute pattern
    if not matches:
        raise ObjectNotFoundError(name)
    return [_source(Path(match)) for match in matches]


def _in_directory(directory: Path) -> list[Source]:
    found = [
        _source(entry)
        for entry in sorted(directory.iterdir())
        if (is_zarr(entry) if entry.is_dir() else entry.suffix.lower() in SUFFIXES)
    ]
    if not found:
        raise ObjectNotFoundError(f"{directory}/*")
    return found


def _source(path: Path) -> Source:
    absolute = str(path.absolute())
    if not path.is_dir():
        return Source(SourceKind.NETCDF, absolute)
    if is_zarr(path):
        return Source(SourceKind.ZARR, absolute)
    raise InvalidInputError(f"{path}: a directory that is not a Zarr store")
