"""From what a user names (paths, URLs, patterns, directories) to the list of sources."""

import glob
from collections.abc import Iterable, Mapping
from os import PathLike, fspath
from pathlib import Path

from frazil.errors import InvalidInputError, ObjectNotFoundError
from frazil.spark.sources.find_remote import find_remote
from frazil.spark.sources.guess import KNOWN_SUFFIXES, NAMES, guess
from frazil.spark.sources.source import Source, SourceKind
from frazil.spark.sources.zarr import is_zarr

type SourceName = str | PathLike[str]


def find_sources(
    names: SourceName | Iterable[SourceName],
    *,
    kind: SourceKind | None = None,
    storage: Mapping[str, object] | None = None,
) -> tuple[Source, ...]:
    """The sources in the order named; those of one pattern or directory sorted by path.

    What a file is, is told by how it begins, and by its name where that says nothing, unless
    `kind` does. `storage` says how the buckets of URLs are reached. Raises ObjectNotFoundError for
    a name that leads to nothing, InvalidInputError for a source named twice.
    """
    if isinstance(names, str | PathLike):
        names = [names]
    given = [fspath(name) for name in names]
    if storage and not any(map(is_url, given)):
        raise InvalidInputError("source_storage goes with the URLs of sources, not with paths")
    found = [
        source
        for name in given
        for source in (
            find_remote(name, kind, storage or {}) if is_url(name) else _expand(name, kind)
        )
    ]
    if not found:
        raise InvalidInputError("no sources given")
    seen: set[str] = set()
    for source in found:
        if source.path in seen:
            raise InvalidInputError(f"{source.path}: named twice among the sources")
        seen.add(source.path)
    return tuple(found)


def is_url(name: str) -> bool:
    """Whether it is somewhere else; `file://` is here."""
    return "://" in name and not name.startswith("file://")


def parse_kind(text: str | None) -> SourceKind | None:
    """Of what a user calls a format; None is for guessing."""
    if text is None:
        return None
    kind = NAMES.get(text.casefold())
    if kind is None:
        raise InvalidInputError(f"format is {text!r}, expected one of {', '.join(sorted(NAMES))}")
    return kind


def _expand(name: str, kind: SourceKind | None) -> list[Source]:
    name = name.removeprefix("file://")
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
    found = [
        _source(entry, kind)
        for entry in sorted(directory.iterdir())
        if (is_zarr(entry) if entry.is_dir() else entry.suffix.lower() in KNOWN_SUFFIXES)
    ]
    if not found:
        raise ObjectNotFoundError(f"{directory}/*")
    return found


def _source(path: Path, kind: SourceKind | None) -> Source:
    absolute = str(path.absolute())
    if not path.is_dir():
        return Source(guess(path.name, _begins(path)) if kind is None else kind, absolute)
    if is_zarr(path) and kind in {None, SourceKind.ZARR}:
        return Source(SourceKind.ZARR, absolute)
    raise InvalidInputError(f"{path}: a directory that is not a Zarr store")


def _begins(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(4)
    except OSError:
        return b""  # whoever opens it will say what is wrong
