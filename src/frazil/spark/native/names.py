"""Names of a catalog: which repository, group, array or metadata table a name in SQL stands for.

A name is a list of parts. The first parts are folders, down to a repository; those after it are
groups, and an array or a metadata table may be the last. One part may say which version:

    frazil.era5.weather                    the repository `weather` in the folder `era5`
    frazil.era5.weather.surface.t2m        an array of its group `surface`
    frazil.era5.weather.surface.nodes      a metadata table
    frazil.era5.weather.`surface@dev`      as of a branch, a tag or a snapshot
    frazil.era5.weather.branch_dev         as Iceberg writes it; also tag_, snapshot_id_ and
                                           at_timestamp_ (milliseconds since 1970)

What is there wins over what a name could also mean: a group `history` hides the table of that name,
which is then `$history`.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from urllib.parse import quote

from frazil.engine.files.object_keys import REPO_INFO, V1_MAIN_BRANCH
from frazil.engine.refs import version as versions
from frazil.engine.repository import Repository
from frazil.engine.session.session import Session
from frazil.errors import (
    IcechunkError,
    InvalidInputError,
    NotFoundError,
    ObjectNotFoundError,
    RefNotFoundError,
)
from frazil.ids import SnapshotId
from frazil.objectstore.local import LocalStore
from frazil.objectstore.protocol import ObjectStore
from frazil.objectstore.remote import RemoteStore
from frazil.objectstore.remote.s3 import BucketRoot
from frazil.paths import NodePath
from frazil.spark.runtime.access import AccessText, parse_access
from frazil.spark.runtime.storage_options import (
    format_path,
    is_storage_option,
    require_shared,
    store_of,
)
from frazil.spark.table.metadata_tables import TABLES
from frazil.spark.table.opened import engine_version
from frazil.spark.table.options import Version
from frazil.spark.table.timetext import format_micros

ROOT_TABLE = "/"  # the root group, in a catalog that is one repository
_SETTINGS = {
    "warehouse": "a folder, or the prefix of a bucket, in which repositories are",
    "repository": "one repository, instead of a warehouse",
    "authorize": "where virtual chunks may be read: JSON object of url prefixes to words",
}
# Metadata tables of Iceberg, by what they are called here.
_OF_ICEBERG = {
    "files": "chunk_refs", "data_files": "chunk_refs", "all_files": "chunk_refs",
    "all_data_files": "chunk_refs", "entries": "chunk_refs", "all_entries": "chunk_refs",
    "all_manifests": "manifests", "partitions": "storage", "metadata_log_entries": "ops_log",
}  # fmt: skip
_AT_ONCE = 16  # folders that are looked into at a time
_MILLISECOND_US = 1000
_MOST_DIGITS = 14  # of milliseconds: some thousand years


# Kinds of errors that have names of their own in Spark.
TAKEN = "name-taken"
NOT_EMPTY = "namespace-not-empty"


class NoSuchNameError(NotFoundError):
    """No table or namespace has the name."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a catalog. Without a warehouse and a repository the first part of a name is the
    location of either.
    """

    name: str
    warehouse: str | None = None
    repository: str | None = None
    reach: Mapping[str, str] = field(default_factory=dict, repr=False)  # storage.*, authorize

    def store(self, location: str) -> ObjectStore:
        return store_of({**self.storage, "path": location})

    @property
    def storage(self) -> dict[str, str]:
        return {name: text for name, text in self.reach.items() if is_storage_option(name)}

    def open(self, location: str) -> Repository:
        access = AccessText(self.reach.get("authorize", ""))
        return Repository.open(self.store(location), access=parse_access(access))


def parse_settings(name: str, given: Mapping[str, str]) -> Settings:
    """Parses `spark.sql.catalog.<name>.*`; the names are without that. Raises InvalidInputError."""
    lowered = {each.lower(): text for each, text in given.items()}
    unknown = [n for n in lowered if n not in _SETTINGS and not is_storage_option(n)]
    if unknown:
        close = get_close_matches(unknown[0], _SETTINGS, n=1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        raise InvalidInputError(
            f"catalog {name!r} has the unknown setting {unknown[0]!r}{hint};"
            f" the settings are {', '.join(_SETTINGS)} and storage.<name>"
        )
    warehouse, repository = lowered.pop("warehouse", None), lowered.pop("repository", None)
    if warehouse and repository:
        raise InvalidInputError(
            f"catalog {name!r}: the settings warehouse and repository exclude each other"
        )
    return Settings(name, _location(warehouse), _location(repository), lowered)


def _location(text: str | None) -> str | None:
    return format_path(text).path if text else None


@dataclass(frozen=True, slots=True)
class Place:
    """A folder or a repository, and the parts of a name that are left for what is in it."""

    location: str
    is_repository: bool
    rest: tuple[str, ...] = ()
    ref: str | None = None  # what follows an @


@dataclass(frozen=True, slots=True)
class Named:
    """The repository, node and table that a name stands for."""

    location: str
    path: str = "/"  # of the group or array
    is_array: bool = False
    table: str | None = None
    version: Version = field(default_factory=Version)

    @property
    def options(self) -> dict[str, str]:
        """Options of the data source that read it, without those that reach the storage."""
        group, variables = self.path, None
        if self.is_array and self.table != "nodes":
            parent = NodePath(self.path).parent
            group, variables = str(parent), json.dumps([NodePath(self.path).name])
        as_of = self.version.as_of_us
        found = {
            "table": self.table,
            "group": None if group == "/" else group,
            "variables": variables,
            "branch": self.version.branch,
            "tag": self.version.tag,
            "snapshot": self.version.snapshot,
            "asOf": None if as_of is None else format_micros(as_of) + "Z",
        }
        taken = {"group", "variables"} if self.table is None else TABLES[self.table].takes
        return {"path": self.location} | {
            name: text
            for name, text in found.items()
            if text is not None and (name in taken or name not in {"group", "variables"})
        }


# From the parts of a name to a folder or a repository


def find_place(settings: Settings, parts: Sequence[str]) -> Place:
    """Follows the parts down to a repository, or to the folder that they name.

    Raises NoSuchNameError, and InvalidInputError for parts that name no folder.
    """
    left = tuple(parts)
    if settings.repository is not None:
        return Place(settings.repository, is_repository=True, rest=left)
    if settings.warehouse is not None:
        found = _place_at(settings, settings.warehouse)
    elif left:
        found, left = _place_named(settings, left[0]), left[1:]
    else:
        raise InvalidInputError(
            f"catalog {settings.name!r} has no warehouse: write a location in backticks,"
            f" {settings.name}.`s3://bucket/prefix`, or set"
            f" spark.sql.catalog.{settings.name}.warehouse"
        )
    while left and not found.is_repository:
        found, left = _enter(settings, found, left[0]), left[1:]
    return replace(found, rest=left)


def _place_at(settings: Settings, location: str) -> Place:
    return Place(location, is_repository=holds_repository(settings.store(location)))


def _place_named(settings: Settings, text: str) -> Place:
    """A location that was written in a statement."""
    found = _place_at(settings, format_path(text).path)
    name = text.partition("://")[2].partition("/")[2] if "://" in text else text
    if not found.is_repository and "@" in name.rpartition("/")[2]:
        base, _, ref = text.rpartition("@")
        without = _place_at(settings, format_path(base).path)
        return replace(without, ref=ref) if without.is_repository else found
    return found


def _enter(settings: Settings, folder: Place, name: str) -> Place:
    found = _place_at(settings, join_location(folder.location, name))
    base, at, ref = name.rpartition("@")
    if not found.is_repository and at and base:
        without = _place_at(settings, join_location(folder.location, base))
        if without.is_repository:
            return replace(without, ref=ref)
    return found


def join_location(folder: str, name: str) -> str:
    """Raises InvalidInputError for a name that is no folder directly in it."""
    if name in {"", ".", ".."} or "/" in name or "\0" in name:
        raise InvalidInputError(f"{name!r} is no name of a folder")
    below = quote(name, safe=" ") if "://" in folder else name
    return f"{folder.rstrip('/')}/{below}"


def holds_repository(store: ObjectStore) -> bool:
    """Asks for the objects that every repository has, without reading them."""
    for key in (REPO_INFO, V1_MAIN_BRANCH):
        try:
            store.head(key)
        except ObjectNotFoundError:
            continue
        return True
    return Repository.fetch_spec_version(store) is not None  # from before version 1


def list_folders(settings: Settings, location: str) -> tuple[str, ...]:
    """Names of the folders in a folder, by one listing; hidden ones are left out.

    Raises NoSuchNameError if there is no such folder.
    """
    store = require_shared(settings.store(location))
    if isinstance(store, LocalStore):
        return _local_folders(store.root)
    remote = RemoteStore(store.place, store.settings) if isinstance(store, BucketRoot) else store
    return tuple(name for name in remote.list_folders() if not name.startswith("."))


def _local_folders(folder: str) -> tuple[str, ...]:
    try:
        with os.scandir(folder) as entries:
            found = [each.name for each in entries if each.is_dir() and each.name[0] != "."]
    except OSError:
        raise NoSuchNameError(f"no folder {folder!r}") from None
    return tuple(sorted(found))


def repositories_in(settings: Settings, location: str) -> list[str]:
    """Names of the folders that are repositories: one listing, and a question for each folder."""

    def is_one(name: str) -> bool:
        return holds_repository(settings.store(join_location(location, name)))

    names = list_folders(settings, location)
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        return [n for n, found in zip(names, threads.map(is_one, names), strict=True) if found]


def folder_exists(settings: Settings, location: str) -> bool:
    store = require_shared(settings.store(location))
    if isinstance(store, LocalStore):
        return Path(store.root).is_dir()
    return next(iter(store.list()), None) is not None


# From the parts that are left to a node, a table and a version


@dataclass(frozen=True, slots=True)
class Reading:
    """One way to read the parts behind a repository."""

    nodes: tuple[str, ...]
    selector: str | None = None  # branch:x, tag:x, snapshot:x, as_of:x, or any:x for one of them
    table: str | None = None


def possible_readings(parts: tuple[str, ...]) -> Iterator[Reading]:
    """Yields the meanings that the parts may have, the plainest first."""
    for nodes, selector in _with_selectors(parts):
        yield Reading(nodes, selector)
        if nodes and (table := nodes[-1].removeprefix("$")) in TABLES:
            yield Reading(nodes[:-1], selector, table)


_PREFIXES = {
    "branch_": "branch",
    "tag_": "tag",
    "snapshot_id_": "snapshot",
    "at_timestamp_": "as_of",
}


def _with_selectors(parts: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str | None]]:
    yield parts, None
    for k in reversed(range(len(parts))):
        before, part, after = parts[:k], parts[k], parts[k + 1 :]
        for prefix, kind in _PREFIXES.items():
            if part.startswith(prefix):
                yield (*before, *after), f"{kind}:{part.removeprefix(prefix)}"
        name, at, ref = part.rpartition("@")
        if at and ref:
            yield (*before, *([name] if name else []), *after), f"any:{ref}"


class Lookup:
    """Nodes of one repository at the versions that a name may mean."""

    def __init__(self, repository: Repository, wanted: Version) -> None:
        self.repository = repository
        self.wanted = wanted
        self.missing: RefNotFoundError | None = None
        self._sessions: dict[Version, Session] = {}

    def version(self, selector: str | None) -> Version:
        """The version of a selector in a name, beside the one that the statement asks for."""
        if selector is None:
            return self.wanted
        found = self._select(selector)
        if found.as_of_us is None and found.branch is not None and self.wanted.branch is None:
            found = replace(found, as_of_us=self.wanted.as_of_us)
            rest = replace(self.wanted, as_of_us=None)
        else:
            rest = self.wanted
        if rest != Version():
            raise InvalidInputError("the name and the statement both say which version")
        return found

    def _select(self, selector: str) -> Version:
        kind, _, text = selector.partition(":")
        match kind:
            case "any":
                return find_version_named(self.repository, text)
            case "branch":
                self.repository.lookup_branch(text)
                return Version(branch=text)
            case "tag":
                self.repository.lookup_tag(text)
                return Version(tag=text)
            case "snapshot":
                return _snapshot(self.repository, text)
        if not (text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS):
            raise RefNotFoundError(f"{text!r} is no number of milliseconds")
        return Version(as_of_us=int(text) * _MILLISECOND_US)

    def session(self, version: Version) -> Session:
        if version not in self._sessions:
            self._sessions[version] = self.repository.readonly_session(engine_version(version))
        return self._sessions[version]

    def find(self, reading: Reading) -> tuple[NodePath, bool, Version] | None:
        """Path, whether it is an array, and version; None if there is no such node."""
        try:
            version = self.version(reading.selector)
        except RefNotFoundError as error:
            self.missing = self.missing or error
            return None
        path = to_path(reading.nodes)
        node = None if path is None else self.session(version).find_node(path)
        return None if path is None or node is None else (path, node.array is not None, version)


def to_path(parts: Sequence[str]) -> NodePath | None:
    """The path of nodes with these names; None if one is no name of a node."""
    try:
        path = NodePath("/")
        for part in parts:
            if "/" in part:
                return None
            path = path.child(part)
    except IcechunkError:
        return None
    return path


def find_version_named(repository: Repository, name: str) -> Version:
    """A branch, a tag or a snapshot, as `VERSION AS OF` names it.

    Raises RefNotFoundError, and InvalidInputError for a name that is a branch and a tag.
    """
    branches, tags = repository.branches(), repository.tags()
    if versions.find_ref(branches, tags, name) is None:
        return _snapshot(repository, name)
    if name in tags:
        return Version(tag=name)
    if name in branches:
        return Version(branch=name)
    kind, _, rest = name.partition(":")
    return Version(tag=rest) if kind == "tag" else Version(branch=rest)


def _snapshot(repository: Repository, text: str) -> Version:
    try:
        snapshot = SnapshotId.parse(text)
        repository.lookup_snapshot(snapshot)
    except (InvalidInputError, NotFoundError):
        raise RefNotFoundError(f"no branch, tag or snapshot {text!r}") from None
    return Version(snapshot=str(snapshot))


# The whole way


@dataclass(frozen=True, slots=True)
class Found:
    named: Named
    lookup: Lookup

    @property
    def session(self) -> Session:
        return self.lookup.session(self.named.version)

    @property
    def is_table(self) -> bool:
        """False for a group without arrays."""
        named = self.named
        return named.is_array or named.table is not None or has_arrays(self.session, named.path)


def has_arrays(session: Session, group: str | NodePath) -> bool:
    path = NodePath(str(group))
    children = (session.find_node(path.child(name)) for name in session.child_names(path))
    return any(child is not None and child.array is not None for child in children)


def find_named(settings: Settings, parts: Sequence[str], asked: "Asked | None" = None) -> Found:
    """Finds the table that a name stands for.

    Raises NoSuchNameError, RefNotFoundError for a version that is not there, and InvalidInputError.
    """
    return find_in(settings, find_place(settings, parts), asked)


def find_in(settings: Settings, place: Place, asked: "Asked | None" = None) -> Found:
    """Finds what the parts name that are left for a repository; see `find_named`."""
    if not place.is_repository:
        raise NoSuchNameError(f"no repository at {place.location}")
    lookup = Lookup(settings.open(place.location), Version())
    lookup.wanted = _wanted(lookup.repository, asked or Asked(), place.ref)
    rest = place.rest
    if settings.repository is not None and rest[:1] == (ROOT_TABLE,):
        rest = rest[1:]
    for reading in possible_readings(rest):
        found = lookup.find(reading)
        if found is not None:
            path, is_array, version = found
            named = Named(place.location, str(path), is_array, reading.table, version)
            return Found(named, lookup)
    if lookup.missing is not None:
        raise lookup.missing
    _refuse_iceberg(lookup, rest)
    raise NoSuchNameError(f"no group, array or metadata table {'.'.join(rest)!r}")


@dataclass(frozen=True, slots=True)
class Asked:
    """The version that a statement asks for: VERSION AS OF, TIMESTAMP AS OF."""

    version: str | None = None
    as_of_us: int | None = None


def _wanted(repository: Repository, asked: Asked, ref: str | None) -> Version:
    if asked.version is not None and ref is not None:
        raise InvalidInputError("the name and the statement both say which version")
    name = asked.version if ref is None else ref
    if name is None:
        return Version(as_of_us=asked.as_of_us)
    return replace(find_version_named(repository, name), as_of_us=asked.as_of_us)


def _refuse_iceberg(lookup: Lookup, rest: tuple[str, ...]) -> None:
    """Says what a metadata table of Iceberg is called here."""
    if rest and rest[-1] in _OF_ICEBERG and lookup.find(Reading(rest[:-1])) is not None:
        raise InvalidInputError(
            f"the metadata table {rest[-1]!r} of Iceberg is {_OF_ICEBERG[rest[-1]]!r} here;"
            f" the metadata tables are {', '.join(TABLES)}"
        )
