"""Results of maintenance with Icechunk's names. Light: some are among the public names."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

from frazil.dataclass import dataclass
from frazil.engine.files.files import Files
from frazil.engine.files.object_keys import (
    CONFIG_YAML,
    OVERWRITTEN,
    RECEIPT,
    REPO_INFO,
    STAGED,
)
from frazil.flatbuf.flexbuffers import Json
from frazil.format.records import Displayed, View, fields_of
from frazil.format.repo_info import RepoInfo
from frazil.format.snapshot import Snapshot
from frazil.ids import SnapshotId


@dataclass(frozen=True, slots=True, kw_only=True)
class GCSummary(Displayed):
    """Counts of what garbage collection deleted, or in a dry run would delete.

    If deleting files of one kind failed, kinds that come later are left for the next time and
    named in `skipped_phases`. The last four fields are frazil's own.
    """

    bytes_deleted: int = 0
    chunks_deleted: int = 0
    manifests_deleted: int = 0
    snapshots_deleted: int = 0
    attributes_deleted: int = 0
    transaction_logs_deleted: int = 0
    objects_failed_to_delete: int = 0
    throttled_batches: int = 0
    delete_errors: list[str] = field(default_factory=list)
    skipped_phases: list[str] = field(default_factory=list)
    backups_deleted: int = 0
    branches_deleted: int = 0
    temporary_files_deleted: int = 0
    peak_memory_bytes: int = 0  # of the sets of ids

    __hash__ = None  # type: ignore[assignment]  # it has lists in it


@dataclass(frozen=True, slots=True)
class ChunkStorageStats(Displayed):
    """Bytes of the chunks that are reachable from branches and tags, each counted once."""

    native_bytes: int = 0
    virtual_bytes: int = 0
    inlined_bytes: int = 0

    def non_virtual_bytes(self) -> int:
        return self.native_bytes + self.inlined_bytes

    def total_bytes(self) -> int:
        return self.native_bytes + self.virtual_bytes + self.inlined_bytes

    def __add__(self, other: object) -> "ChunkStorageStats":
        if not isinstance(other, ChunkStorageStats):
            return NotImplemented
        return ChunkStorageStats(
            self.native_bytes + other.native_bytes,
            self.virtual_bytes + other.virtual_bytes,
            self.inlined_bytes + other.inlined_bytes,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerStats(Displayed):
    """Bytes of one branch, tag or array; `exclusive` are those that no other one has."""

    name: str
    kind: str  # branch, tag or array
    total: ChunkStorageStats
    exclusive: ChunkStorageStats
    shared: ChunkStorageStats

    @classmethod
    def of(
        cls, kind: str, name: str, total: ChunkStorageStats, exclusive: ChunkStorageStats
    ) -> "OwnerStats":
        shared = ChunkStorageStats(
            total.native_bytes - exclusive.native_bytes,
            total.virtual_bytes - exclusive.virtual_bytes,
            total.inlined_bytes - exclusive.inlined_bytes,
        )
        return cls(name=name, kind=kind, total=total, exclusive=exclusive, shared=shared)


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageStats(Displayed):
    """Bytes that are stored: in all, by branch and tag, and by array."""

    total: ChunkStorageStats
    refs: list[OwnerStats]
    arrays: list[OwnerStats]
    snapshots: int  # reachable from refs
    manifests: int
    manifest_bytes: int
    references: int  # in all of those manifests
    peak_memory_bytes: int  # of counting, about

    def __view__(self) -> View:
        view = fields_of(self)
        shown = [(name, _shorten(value)) for name, value in view.fields]
        return View(view.title, shown)


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeSummary:
    """Counts of what was purged, or would be, and what still refers to it.

    Snapshots and transaction logs are rewritten under their ids. `commits` are those that were made
    on top of branches; none after a dry run.
    """

    snapshots: list[str]
    transaction_logs: int = 0
    manifests: int = 0
    chunks: int = 0
    chunk_bytes: int = 0
    backups: int = 0
    nodes: list[str] = field(default_factory=list)
    commits: dict[str, str] = field(default_factory=dict)
    remaining: "list[Remaining]"


def _shorten(value: Any) -> Any:
    return f"{len(value)} of them" if isinstance(value, list) else value


# References to purged things that remain, or may: for the person responsible for the purge.

SHOWN = 20  # of things there may be thousands of


@dataclass(frozen=True, slots=True)
class Remaining:
    """`kind` is one of:

    message, metadata, attributes    text that mentions it: of a commit, the repository, a node
    config                           rules of the configuration that mention it
    tag                              a tag of a snapshot that is no longer what it was
    moved-node                       a node that is at another path in other snapshots
    shared-chunks                    chunk objects that other arrays use too, so that they stay
    virtual-file                     files outside the repository that virtual chunks were in
    backup                           files that were put aside, and are not looked into
    ticket                           commits that wait to be made by another writer
    elsewhere                        copies that cannot be inspected from here
    """

    kind: str
    place: str
    text: str


COPIES = Remaining(
    "elsewhere",
    "copies",
    "clones, bundles, forks, caches of running programs and of proxies, replicas, and earlier"
    " versions that a bucket keeps of its objects are not known here",
)


def mentions_by_snapshot(snapshot: Snapshot, texts: Sequence[str]) -> Iterator[Remaining]:
    """Message and metadata of a commit that contain the texts."""
    if _contains_any(snapshot.message, texts):
        yield Remaining("message", str(snapshot.id), snapshot.message)
    if _contains_any(_as_text(snapshot.metadata), texts):
        yield Remaining("metadata", str(snapshot.id), "of the commit")


def mentions_by_repository(info: RepoInfo, texts: Sequence[str]) -> Iterator[Remaining]:
    if _contains_any(_as_text(info.metadata), texts):
        yield Remaining("metadata", "repo", "of the repository")
    if info.config is not None and _contains_any(_as_text(info.config), texts):
        yield Remaining("config", "repo", "rules of the configuration name it")


def mentions_by_nodes(snapshot: Snapshot, texts: Sequence[str]) -> set[str]:
    """Paths of nodes whose zarr.json has one of the texts in it."""
    wanted = [text.encode() for text in texts]
    user_data = snapshot.nodes.table.string("user_data").to_list()
    found = (
        row
        for row, data in enumerate(user_data)
        if data is not None and any(text in data for text in wanted)
    )
    return {snapshot.nodes.path_text(row) for row in found}


def tags_at(info: RepoInfo, snapshots: set[SnapshotId]) -> Iterator[Remaining]:
    for name, row in sorted(info.tags.items()):
        if info.snapshots.id(row) in snapshots:
            yield Remaining("tag", name, "is at a snapshot that is not what it was when tagged")


def put_aside(files: Files) -> Iterator[Remaining]:
    """Copies of earlier states, except of the entry point and its configuration."""
    known = tuple(f"{OVERWRITTEN}{name}." for name in (REPO_INFO, CONFIG_YAML))
    for info in files.store.list(OVERWRITTEN):
        if not info.key.startswith(known):
            yield Remaining("backup", info.key, "was put aside, and is not looked into")
    for info in files.store.list(STAGED):
        if info.size_bytes and not info.key.endswith(RECEIPT):
            yield Remaining("ticket", info.key, "waits to be committed, and is not looked into")


def _contains_any(text: str, wanted: Sequence[str]) -> bool:
    return any(each in text for each in wanted)


def _as_text(value: Json | Mapping[str, Json]) -> str:
    return json.dumps(value, ensure_ascii=False)
