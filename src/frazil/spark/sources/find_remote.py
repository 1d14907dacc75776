"""Sources in buckets and on web servers, by their URLs.

    s3://bucket/a/b.nc       one file, or one Zarr store
    s3://bucket/a/           the files and Zarr stores directly in it
    s3://bucket/a/**/*.nc    what a listing shows that matches; `**` is any number of folders
    https://host/a/b.nc      one file: web servers show no listings

A store is made for the whole bucket or host, and holds the credentials; paths never do.
"""

import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from urllib.parse import urlsplit

from frazil.errors import InvalidInputError, ObjectNotFoundError
from frazil.format.urls import place_of
from frazil.objectstore.remote import RemoteStore
from frazil.objectstore.remote.s3 import BucketRoot
from frazil.ranges import Range
from frazil.references.plan import locate
from frazil.spark.runtime.storage_options import storage_of, with_prefix
from frazil.spark.sources.guess import KNOWN_SUFFIXES, guess
from frazil.spark.sources.source import Remote, Source, SourceKind
from frazil.spark.sources.zarr import MARKERS

_WEB = ("http", "https")
_SPECIAL = re.compile(r"[*?\[]")
_LOOKED_AT_ONCE = 16


def find_remote(url: str, kind: SourceKind | None, storage: Mapping[str, object]) -> list[Source]:
    """Sorted by path. Raises ObjectNotFoundError, InvalidInputError for a URL with secrets."""
    _require_plain(url)
    scheme, rest = url.split("://", 1)
    authority, _, key = rest.partition("/")
    store = _whole(f"{scheme}://{authority}", storage)
    if scheme.lower() in _WEB:
        if "*" in key or kind is SourceKind.ZARR:
            raise InvalidInputError(
                f"{url}: web servers show no listings, so patterns and Zarr stores cannot be read"
                " there: name each file"
            )
        place = place_of(locate(url, root=None))
        return [_source(url, Remote(store, place.key), kind)]
    root = f"{scheme}://{authority}/"
    if _SPECIAL.search(key):
        return _sources(root, store, _matching(store, key), kind, url)
    found = _named(store, key.strip("/"))
    return _sources(root, store, found, kind, url)


def _require_plain(url: str) -> None:
    parts = urlsplit(url)
    if "@" in parts.netloc and not parts.scheme.lower().startswith("abfs"):
        raise InvalidInputError(
            "a URL of a source has a name or a password in it, which everybody would see:"
            " say it in source_storage"
        )
    if parts.scheme.lower() in _WEB and (parts.query or parts.fragment):
        raise InvalidInputError(
            f"{parts._replace(query='', fragment='').geturl()}: a source has no query:"
            " if it is a signature, everybody would see it; say it in source_storage"
        )


def _whole(root: str, storage: Mapping[str, object]) -> RemoteStore:
    """Everything in the bucket or on the host."""
    store = storage_of({"path": root, **with_prefix(storage)}).store
    if isinstance(store, RemoteStore):
        return store
    if isinstance(store, BucketRoot):
        return RemoteStore(store.place)
    raise InvalidInputError(f"no sources can be read from {root}")


def _named(store: RemoteStore, key: str) -> dict[str, bool]:
    """A file or a Zarr store; or what lies in a folder. Whether each is a Zarr store."""
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
    files = {name for name in names if "/" not in name and _suffix(name) in KNOWN_SUFFIXES}
    return {folder + name: name in stores for name in stores | files}


def _suffix(name: str) -> str:
    return f".{name.rpartition('.')[2].lower()}" if "." in name else ""


def _matching(store: RemoteStore, pattern: str) -> dict[str, bool]:
    """Files and Zarr stores of that name. Whether each is a Zarr store."""
    start = _SPECIAL.split(pattern, maxsplit=1)[0]
    wanted = pattern.strip("/").split("/")
    stores, files = set[str](), set[str]()
    for info in store.list(start):
        folder, _, name = info.key.rpartition("/")
        if name in MARKERS and _matches(folder.split("/"), wanted):
            stores.add(folder)
        elif _matches(info.key.split("/"), wanted):
            files.add(info.key)
    inside = {file for file in files if any(file.startswith(f"{each}/") for each in stores)}
    return {key: key in stores for key in stores | (files - inside)}


def _matches(names: list[str], wanted: list[str]) -> bool:
    """Segment by segment, in time that is a product of the two."""
    reached = {0}
    for name in names:
        reached = {
            after
            for at in _through(reached, wanted)
            if at < len(wanted)
            for after in ([at] if wanted[at] == "**" else [at + 1])
            if wanted[at] == "**" or fnmatchcase(name, wanted[at])
        }
    return len(wanted) in _through(reached, wanted)


def _through(reached: set[int], wanted: list[str]) -> set[int]:
    """With what is reached if each `**` stands for nothing."""
    found, at = set(reached), 0
    while at < len(wanted):
        if at in found and wanted[at] == "**":
            found.add(at + 1)
        at += 1
    return found


def _sources(
    root: str, store: RemoteStore, found: Mapping[str, bool], kind: SourceKind | None, url: str
) -> list[Source]:
    if not found:
        raise ObjectNotFoundError(url)
    files = sorted(key for key, is_store in found.items() if not is_store)
    stores = sorted(key for key, is_store in found.items() if is_store)
    if stores and kind not in {None, SourceKind.ZARR}:
        raise InvalidInputError(f"{root}{stores[0]}: a Zarr store, not of format {kind}")

    def look(key: str) -> Source:
        return _source(root + key, Remote(store, key), kind)

    with ThreadPoolExecutor(_LOOKED_AT_ONCE) as threads:
        sources = [*threads.map(look, files)]
    sources += [Source(SourceKind.ZARR, root + key, Remote(store, key)) for key in stores]
    return sorted(sources, key=lambda source: source.path)


def _source(path: str, remote: Remote, kind: SourceKind | None) -> Source:
    if kind is None:
        try:
            begins = bytes(remote.store.get(remote.key, Range(0, 4)).data)
        except ObjectNotFoundError as error:
            raise ObjectNotFoundError(path) from error
        kind = guess(remote.key, begins)
    return Source(kind, path, remote)
