"""Sources by what a user names: paths, patterns, directories and URLs.

    a/b.nc, a/, a/*.nc       on this machine
    s3://bucket/a/b.nc       one file, or one Zarr store
    s3://bucket/a/           the files and Zarr stores directly in it
    s3://bucket/a/**/*.nc    listed objects that match; `**` is any number of folders
    https://host/a/b.nc      one file: web servers have no listings

A store is made for the whole bucket or host, and holds the credentials; paths never do.
"""

import glob
import re
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from os import PathLike, fspath
from pathlib import Path
from urllib.parse import urlsplit

from frazil.errors import InvalidInputError, ObjectNotFoundError
from frazil.format.urls import place_of
from frazil.objectstore.remote import RemoteStore
from frazil.objectstore.remote.s3 import BucketRoot
from frazil.ranges import Range
from frazil.references.plan import locate
from frazil.spark.runtime.storage_options import store_of, with_prefix
from frazil.spark.sources.source_formats import MAGIC_BYTES, known_suffixes, recognise_format
from frazil.spark.sources.source_types import Remote, Source, SourceFormat
from frazil.spark.sources.zarr_files import MARKERS, ZARR, is_zarr

_WEB = ("http", "https")
_SPECIAL = re.compile(r"[*?\[]")
_REQUESTS_AT_ONCE = 16

type SourceName = str | PathLike[str]


def find_sources(
    names: SourceName | Iterable[SourceName],
    *,
    source_format: SourceFormat | None = None,
    storage: Mapping[str, object] | None = None,
) -> tuple[Source, ...]:
    """Sources in the order named; those of one pattern or directory are sorted by path.

    Without `source_format` each file is recognised by its first bytes, or by its suffix. `storage`
    has the options of the buckets of URLs. Raises ObjectNotFoundError for a name without a
    source, InvalidInputError for a source that is named twice.
    """
    if isinstance(names, str | PathLike):
        names = [names]
    given = [fspath(name) for name in names]
    if storage and not any(map(is_url, given)):
        raise InvalidInputError("source_storage goes with the URLs of sources, not with paths")
    sources = [
        source
        for name in given
        for source in (
            _find_remote(name, source_format, storage or {})
            if is_url(name)
            else _find_local(name, source_format)
        )
    ]
    if not sources:
        raise InvalidInputError("no sources given")
    seen: set[str] = set()
    for source in sources:
        if source.path in seen:
            raise InvalidInputError(f"{source.path}: named twice among the sources")
        seen.add(source.path)
    return tuple(sources)


def is_url(name: str) -> bool:
    """Returns True for a remote name; `file://` is local."""
    return "://" in name and not name.startswith("file://")


def _find_local(name: str, source_format: SourceFormat | None) -> list[Source]:
    name = name.removeprefix("file://")
    path = Path(name)
    if path.exists():
        if path.is_dir() and not is_zarr(path):
            return _in_directory(path, source_format)
        return [_local_source(path, source_format)]
    matches = sorted(glob.glob(name, recursive=True))  # noqa: PTH207  Path.glob takes no absolute pattern
    if not matches:
        raise ObjectNotFoundError(name)
    return [_local_source(Path(match), source_format) for match in matches]


def _in_directory(directory: Path, source_format: SourceFormat | None) -> list[Source]:
    suffixes = known_suffixes()
    sources = [
        _local_source(entry, source_format)
        for entry in sorted(directory.iterdir())
        if (is_zarr(entry) if entry.is_dir() else entry.suffix.lower() in suffixes)
    ]
    if not sources:
        raise ObjectNotFoundError(f"{directory}/*")
    return sources


def _local_source(path: Path, source_format: SourceFormat | None) -> Source:
    absolute = str(path.absolute())
    if not path.is_dir():
        return Source(source_format or recognise_format(path.name, _first_bytes(path)), absolute)
    if is_zarr(path) and source_format in {None, ZARR}:
        return Source(ZARR, absolute)
    raise InvalidInputError(f"{path}: a directory that is not a Zarr store")


def _first_bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAGIC_BYTES)
    except OSError:
        return b""  # opening it raises the error


def _find_remote(
    url: str, source_format: SourceFormat | None, storage: Mapping[str, object]
) -> list[Source]:
    """Sources sorted by path. Raises InvalidInputError for a URL with secrets."""
    _require_plain(url)
    scheme, rest = url.split("://", 1)
    authority, _, key = rest.partition("/")
    store = _root_store(f"{scheme}://{authority}", storage)
    if scheme.lower() in _WEB:
        if "*" in key or source_format == ZARR:
            raise InvalidInputError(
                f"{url}: web servers show no listings, so patterns and Zarr stores cannot be read"
                " there: name each file"
            )
        place = place_of(locate(url, root=None))
        return [_remote_source(url, Remote(store, place.key), source_format)]
    root = f"{scheme}://{authority}/"
    if _SPECIAL.search(key):
        is_store = _match_pattern(store, key)
    else:
        is_store = _list_named(store, key.strip("/"))
    if not is_store:
        raise ObjectNotFoundError(url)
    return _remote_sources(root, store, is_store, source_format)


def _require_plain(url: str) -> None:
    parts = urlsplit(url)
    if "@" in parts.netloc and not parts.scheme.lower().startswith("abfs"):
        raise InvalidInputError(
            "a URL of a source has a name or a password in it, which would be visible to everyone:"
            " say it in source_storage"
        )
    if parts.scheme.lower() in _WEB and (parts.query or parts.fragment):
        raise InvalidInputError(
            f"{parts._replace(query='', fragment='').geturl()}: a source has no query:"
            " a signature would be visible to everyone; say it in source_storage"
        )


def _root_store(root: str, storage: Mapping[str, object]) -> RemoteStore:
    """Store of the whole bucket or host."""
    store = store_of({"path": root, **with_prefix(storage)})
    if isinstance(store, RemoteStore):
        return store
    if isinstance(store, BucketRoot):
        return RemoteStore(store.place)
    raise InvalidInputError(f"no sources can be read from {root}")


def _list_named(store: RemoteStore, key: str) -> dict[str, bool]:
    """Key of a file or a Zarr store, or those inside a folder; the value is True for a store."""
    if key:
        try:
            store.head(key)
        except ObjectNotFoundError:
            pass
        else:
            return {key: False}
    folder = f"{key}/" if key else ""
    names = {info.key.removeprefix(folder) for info in store.list(folder)}
    if names & set(MARKERS):
        return {key: True}
    stores = {top for name in names for top, _, rest in [name.partition("/")] if rest in MARKERS}
    suffixes = known_suffixes()
    files = {name for name in names if "/" not in name and _suffix(name) in suffixes}
    return {folder + name: name in stores for name in stores | files}


def _suffix(name: str) -> str:
    return f".{name.rpartition('.')[2].lower()}" if "." in name else ""


def _match_pattern(store: RemoteStore, pattern: str) -> dict[str, bool]:
    """Keys of files and Zarr stores that match; the value is True for a store."""
    start = _SPECIAL.split(pattern, maxsplit=1)[0]
    wanted = pattern.strip("/").split("/")
    stores, files = set[str](), set[str]()
    for info in store.list(start):
        folder, _, name = info.key.rpartition("/")
        if name in MARKERS and _matches(folder.split("/"), wanted):
            stores.add(folder)
        elif _matches(info.key.split("/"), wanted):
            files.add(info.key)
    inside = {file for file in files if any(file.startswith(f"{folder}/") for folder in stores)}
    return {key: key in stores for key in stores | (files - inside)}


def _matches(names: list[str], wanted: list[str]) -> bool:
    """Compares segment by segment, in time proportional to the product of the two lengths."""
    reached = {0}
    for name in names:
        reached = {
            after
            for at in _skip_empty(reached, wanted)
            if at < len(wanted)
            for after in ([at] if wanted[at] == "**" else [at + 1])
            if wanted[at] == "**" or fnmatchcase(name, wanted[at])
        }
    return len(wanted) in _skip_empty(reached, wanted)


def _skip_empty(reached: set[int], wanted: list[str]) -> set[int]:
    """Adds the positions that are reached if a `**` matches no segment."""
    positions = set(reached)
    for at, segment in enumerate(wanted):
        if at in positions and segment == "**":
            positions.add(at + 1)
    return positions


def _remote_sources(
    root: str,
    store: RemoteStore,
    is_store: Mapping[str, bool],
    source_format: SourceFormat | None,
) -> list[Source]:
    files = sorted(key for key in is_store if not is_store[key])
    stores = sorted(key for key in is_store if is_store[key])
    if stores and source_format is not None and source_format != ZARR:
        raise InvalidInputError(
            f"{root}{stores[0]}: a Zarr store, not of format {source_format.name}"
        )

    def source_at(key: str) -> Source:
        return _remote_source(root + key, Remote(store, key), source_format)

    with ThreadPoolExecutor(_REQUESTS_AT_ONCE) as threads:
        sources = [*threads.map(source_at, files)]
    sources += [Source(ZARR, root + key, Remote(store, key)) for key in stores]
    return sorted(sources, key=lambda source: source.path)


def _remote_source(path: str, remote: Remote, source_format: SourceFormat | None) -> Source:
    if source_format is None:
        try:
            first_bytes = bytes(remote.store.get(remote.key, Range(0, MAGIC_BYTES)).data)
        except ObjectNotFoundError as error:
            raise ObjectNotFoundError(path) from error
        source_format = recognise_format(remote.key, first_bytes)
    return Source(source_format, path, remote)
