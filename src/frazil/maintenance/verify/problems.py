"""Kinds of problems that a repository can have, by name.

An error is a broken MUST of the specification or data that cannot be read; a warning leaves all
data readable but something will not work, or is not as any writer leaves it; a note is worth
knowing. A name never changes its meaning. docs/verify.md is this table for people.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
import numpy.typing as npt


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"

    @property
    def rank(self) -> int:
        """0 for the worst."""
        return list(Severity).index(self)


@dataclass(frozen=True, slots=True)
class Kind:
    severity: Severity
    meaning: str
    repair: str | None = None  # what `repair` does about it, if anything


def _error(meaning: str, repair: str | None = None) -> Kind:
    return Kind(Severity.ERROR, meaning, repair)


def _warning(meaning: str, repair: str | None = None) -> Kind:
    return Kind(Severity.WARNING, meaning, repair)


def _note(meaning: str) -> Kind:
    return Kind(Severity.NOTE, meaning)


_RESTORED = "restored from the newest readable backup"
_REPO = "the repo info is written again, in order"
_SNAPSHOT = "the snapshot is written again, in order and with the right lists"
_MANIFEST = "the manifest is written again, in order"
_LOG = "recomputed from the snapshot and its parent"

_FILES = {
    "file-unreadable": _error("the storage fails to give a file that it lists"),
    "header-invalid": _error("no icechunk file, of an unknown version, or unknown compression"),
    "header-writer": _warning("the name of the writer in the header is not padded UTF-8"),
    "file-type": _error("a file of another type than its folder holds"),
    "file-damaged": _error("a payload that cannot be decompressed or decoded"),
    "file-name": _error("a file in one of the folders whose name is not that of an id"),
    "file-id": _error("the id inside a file is not its name"),
    "text-invalid": _error("a text that is not UTF-8"),
    "file-unknown": _note("a file that is not part of the layout"),
    "version-unexpected": _error("a file of a newer version than its repository"),
}
_ENTRY = {
    "repository-missing": _error("neither a repo info nor a branch main is there", _RESTORED),
    "repo-info-unreadable": _error("the repo info cannot be read", _RESTORED),
    "repo-info-version": _error("the repo info says another version than 2", _REPO),
    "branch-main-missing": _error("there is no branch main"),
    "refs-unsorted": _error("branches or tags are not in order of their names", _REPO),
    "ref-duplicate": _error("two branches or two tags have one name"),
    "ref-name": _warning("a name that no branch or tag can be given"),
    "ref-unreadable": _error("the file of a branch or tag cannot be read"),
    "ref-dangling": _error("a branch or tag points to a snapshot that is not listed"),
    "ref-snapshot-missing": _error("a branch or tag points to a snapshot without a file"),
    "deleted-tags-unsorted": _error("names of deleted tags are not in order", _REPO),
    "tag-deleted-and-present": _error("a tag has the name of a deleted one"),
    "flags-unsorted": _error("feature flags are not in order", _REPO),
    "flag-contradiction": _error("a feature flag is enabled and disabled"),
    "status-unknown": _warning("an availability that this version does not know"),
    "repo-metadata-invalid": _error("metadata of the repository cannot be decoded"),
    "config-invalid": _error("the configuration cannot be decoded", _RESTORED),
    "container-invalid": _note("a virtual chunk container that no chunk can be read from"),
    "backup-missing": _warning(
        "the ops log goes on in a backup that is not there, or older ones are there"
    ),
    "backup-unreadable": _warning("a backup that the ops log names cannot be read"),
    "backup-name": _warning("a backup that is not named as the specification says"),
    "ops-log-cycle": _error("the pages of the ops log lead back to one of them"),
    "ops-log-order": _warning("the ops log is not newest first"),
    "ops-log-unknown-update": _warning("an entry of a kind that this version does not know"),
    "ops-log-empty": _warning("the ops log has no entry"),
}
_HISTORY = {
    "snapshots-unsorted": _error("the list of snapshots is not in order of id", _REPO),
    "snapshot-duplicate": _error("a snapshot is listed twice"),
    "parent-dangling": _error("the parent of a snapshot is not there"),
    "parent-absent": _error("a snapshot of version 1, not the first, without a parent"),
    "parent-cycle": _error("parents of snapshots form a cycle"),
    "snapshot-missing": _error("a listed snapshot has no file"),
    "snapshot-info-differs": _warning("message, time or metadata differ in list and file"),
    "snapshot-metadata-invalid": _error("metadata of a snapshot cannot be decoded"),
}
_SNAPSHOTS = {
    "snapshot-parent-present": _error("a snapshot of version 2 names its parent", _SNAPSHOT),
    "snapshot-metadata-unsorted": _error("metadata is not in order of names", _SNAPSHOT),
    "manifest-list-version": _error(
        "manifests are listed in the way of the other version", _SNAPSHOT
    ),
    "manifest-list-unsorted": _error("the list of manifests is not in order of id", _SNAPSHOT),
    "manifest-list-duplicate": _error("a manifest is listed twice"),
    "manifest-unlisted": _error("a manifest is used but not listed", _SNAPSHOT),
    "manifest-unused": _warning("a manifest is listed but not used", _SNAPSHOT),
    "manifest-size": _error("a manifest is listed with a wrong size", _SNAPSHOT),
    "manifest-count": _error("a manifest is listed with a wrong number of refs", _SNAPSHOT),
    "nodes-unsorted": _error("nodes are not in order of their paths", _SNAPSHOT),
    "nodes-in-old-order": _note("nodes are in the order of releases before 1.1.3"),
    "node-path": _error("a path that is not absolute and canonical"),
    "node-path-duplicate": _error("two nodes have one path"),
    "node-id-duplicate": _error("two nodes have one id"),
    "node-kind": _error("a node is neither an array nor a group"),
    "node-parent-array": _error("a node below an array"),
    "node-orphan": _warning("a node whose parent is missing"),
    "shape-version": _error("the shape is stored in the way of the other version", _SNAPSHOT),
    "zarr-metadata-invalid": _error("the zarr metadata of a node cannot be parsed"),
    "zarr-node-type": _error("the zarr metadata is of the other type of node"),
    "zarr-shape": _error("shape or chunk grid of node and zarr metadata differ"),
    "zarr-dimension-names": _error("dimension names of node and zarr metadata differ"),
    "extents-dimensions": _error("extents have another number of dimensions than the array"),
    "extents-invalid": _error("extents end before they begin"),
    "extents-overlap": _error("extents of two manifests of an array overlap"),
}
_MANIFESTS = {
    "manifest-missing": _error("a manifest that an array needs is not there"),
    "manifest-arrays-unsorted": _error("arrays are not in order of node id", _MANIFEST),
    "manifest-array-duplicate": _error("an array is in a manifest twice"),
    "manifest-lacks-array": _warning("a manifest has no chunks of an array that uses it"),
    "location-compression": _error("locations that cannot be decompressed"),
    "chunk-refs-unsorted": _error("refs are not in order of their index", _MANIFEST),
    "chunk-ref-duplicate": _error("a chunk has two refs"),
    "chunk-ref-kind": _error("not exactly one of inline, native and virtual"),
    "chunk-dimensions": _error("an index with another number of dimensions than the array"),
    "chunk-outside-extents": _error("a chunk that the extents of the manifest do not cover"),
    "chunk-outside-grid": _warning("a chunk outside of the array"),
    "chunk-missing": _error("the object of a native chunk is not there"),
    "chunk-out-of-bounds": _error("a native chunk reaches beyond the end of its object"),
    "chunk-undecodable": _error("a chunk that its codecs cannot decode"),
    "virtual-location": _error("a location that is not a URL"),
    "virtual-range": _error("a virtual chunk beyond what 64 bits can address"),
    "virtual-uncovered": _warning("a location that no virtual chunk container covers"),
    "virtual-checksums": _warning("both an etag and a time as checksum"),
    "virtual-unauthorized": _note("virtual chunks that may not be read here, and were not checked"),
    "virtual-missing": _error("the object of a virtual chunk is not there"),
    "virtual-changed": _error("the object of a virtual chunk has changed"),
    "virtual-out-of-bounds": _error("a virtual chunk reaches beyond the end of its object"),
    "virtual-unreadable": _error("the object of a virtual chunk cannot be read"),
}
_LOGS = {
    "log-missing": _error("a snapshot has no transaction log", _LOG),
    "log-initial-not-empty": _error("the log of the initial snapshot is not empty", _LOG),
    "log-nodes-unsorted": _error("node ids are not in order", _LOG),
    "log-node-repeated": _error("a node is in more than one list, or twice", _LOG),
    "log-chunks-unsorted": _error("updated chunks are not in order", _LOG),
    "log-chunks-in-old-order": _note("updated chunks of version 1 are in the order of manifests"),
    "log-dimensions": _error("indices with another number of dimensions than the array", _LOG),
    "log-moves-unsorted": _error("moves are not in order of where they went", _LOG),
    "log-move-invalid": _error("a move that is none, or of a node at another path", _LOG),
    "log-moves-version": _error("moves in a log of version 1"),
    "log-unknown-node": _error("a node that is neither in the snapshot nor its parent", _LOG),
    "log-incomplete": _error("nodes changed that the log does not list", _LOG),
    "pruned-log-missing": _error("the log of an expired ancestor is not there"),
}
KINDS: Mapping[str, Kind] = {**_FILES, **_ENTRY, **_HISTORY, **_SNAPSHOTS, **_MANIFESTS, **_LOGS}

# Rules of docs/spec-coverage.md that a kind of problem is the breach of
RULES: Mapping[str, tuple[str, ...]] = {
    "branch-main-missing": ("REF-1",),
    "tag-deleted-and-present": ("REF-3",),
    "file-unknown": ("FILE-1",),
    "file-name": ("ID-1",),
    "file-id": ("ID-2", "LOG-7"),
    "node-path": ("PATH-1", "PATH-2", "PATH-3", "PATH-4"),
    "repository-missing": ("REPO-1",),
    "file-type": ("REPO-2", "SNAP-1", "MAN-1", "LOG-2"),
    "refs-unsorted": ("REPO-3", "REPO-4"),
    "deleted-tags-unsorted": ("REPO-5",),
    "snapshots-unsorted": ("REPO-6",),
    "flags-unsorted": ("REPO-7", "REPO-8"),
    "backup-missing": ("REPO-9",),
    "backup-name": ("REPO-10",),
    "parent-absent": ("SNAP-2",),
    "snapshot-parent-present": ("SNAP-3",),
    "nodes-unsorted": ("SNAP-4",),
    "snapshot-metadata-unsorted": ("SNAP-5",),
    "manifest-list-unsorted": ("SNAP-6", "SNAP-9"),
    "manifest-list-version": ("SNAP-7", "SNAP-8"),
    "shape-version": ("SNAP-10", "SNAP-11"),
    "extents-overlap": ("SNAP-12", "SNAP-13"),
    "manifest-size": ("SNAP-14",),
    "manifest-count": ("SNAP-14",),
    "manifest-arrays-unsorted": ("MAN-2",),
    "chunk-refs-unsorted": ("MAN-3",),
    "chunk-ref-kind": ("MAN-4",),
    "log-missing": ("LOG-1",),
    "log-initial-not-empty": ("LOG-3",),
    "log-nodes-unsorted": ("LOG-4",),
    "log-node-repeated": ("LOG-5", "LOG-6"),
    "log-chunks-unsorted": ("LOG-8", "LOG-9"),
    "log-dimensions": ("LOG-10",),
    "log-moves-unsorted": ("LOG-11",),
    "file-damaged": ("LOG-12", "REQ-1", "REQ-2"),
    "log-move-invalid": ("LOG-13", "LOG-16", "LOG-17"),
    "log-incomplete": ("LOG-14",),
    "node-orphan": ("LOG-15",),
}


type Rows = npt.NDArray[np.int64]

OF_NODES = {  # the same in every snapshot that has the node as it is
    "zarr-metadata-invalid",
    "zarr-node-type",
    "zarr-shape",
    "zarr-dimension-names",
    "extents-dimensions",
    "extents-invalid",
    "extents-overlap",
}
MOST_ROWS = 100  # of one kind in one array of one file; the rest is counted


@dataclass(frozen=True, slots=True)
class Place:
    """A file by its key, and what in it: a node by its path, a chunk by its index."""

    file: str
    node: str | None = None
    chunk: tuple[int, ...] | None = None

    def __str__(self) -> str:
        node = "" if self.node is None else f" {self.node}"
        chunk = "" if self.chunk is None else f"[{','.join(map(str, self.chunk))}]"
        return f"{self.file}{node}{chunk}"


@dataclass(frozen=True, slots=True)
class Problem:
    """`kind` is a name of kinds.KINDS. `count` is of the chunks or rows that it stands for."""

    kind: str
    place: Place
    text: str
    count: int = 1

    @property
    def severity(self) -> Severity:
        return KINDS[self.kind].severity

    @property
    def repairable(self) -> bool:
        """True if there is a repair for the kind; it may still lack what it needs."""
        return KINDS[self.kind].repair is not None

    def __str__(self) -> str:
        return f"{self.severity}: {self.kind}: {self.place}: {self.text}"


def problem(
    kind: str,
    file: str,
    text: str,
    *,
    node: str | None = None,
    chunk: Sequence[int] | None = None,
) -> Problem:
    index = None if chunk is None else tuple(int(each) for each in chunk)
    return Problem(kind, Place(file, node, index), text)


def problems_of_rows(
    kind: str,
    place: Place,
    rows: Rows,
    index: npt.NDArray[np.uint32] | None,
    text: Callable[[int], str],
) -> list[Problem]:
    """One for each of the rows, by their index if they are chunks; the last counts the rest."""
    found = []
    for row in rows[:MOST_ROWS].tolist():
        chunk = None if index is None else tuple(index[row].tolist())
        found.append(Problem(kind, replace(place, chunk=chunk), text(row)))
    rest = len(rows) - len(found)
    if rest > 0:
        found.append(Problem(kind, place, f"and {rest} more", rest))
    return found


def first_of_each(problems: Iterable[Problem]) -> list[Problem]:
    """Drops problems that repeat one of the same node in an earlier snapshot."""
    seen = set[tuple[str, str | None, str]]()
    kept = []
    for each in problems:
        fact = each.kind, each.place.node, each.text
        if each.kind in OF_NODES and fact in seen:
            continue
        seen.add(fact)
        kept.append(each)
    return kept


def worst_first(problems: Iterable[Problem]) -> list[Problem]:
    """Problems by severity, kind and place: a list that does not depend on how they were found."""
    return sorted(
        set(problems),
        key=lambda one: (
            one.severity.rank,
            one.kind,
            one.place.file,
            one.place.node or "",
            one.place.chunk or (),
            one.count,
            one.text,
        ),
    )
