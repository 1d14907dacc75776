"""Storage of the chunks of purged arrays: manifests, chunk objects, files outside."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from frazil.assets.files import Files
from frazil.errors import FormatError
from frazil.format.chunk_refs import ChunkRefs
from frazil.format.manifest import Manifest
from frazil.ids import ManifestId, NodeId
from frazil.maintenance.chunk_parts import Parts, id_keys
from frazil.maintenance.executor import Executor
from frazil.maintenance.id_sets import IdSet
from frazil.maintenance.inventory import FileKind
from frazil.maintenance.purge.history import Ids, Traces, stored_ids
from frazil.maintenance.purge.remaining import SHOWN, Remaining
from frazil.objectstore.protocol import ObjectStore

_AT_ONCE = 8  # manifests in memory
_READING = "reading manifests"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Contents:
    manifests: IdSet  # that nothing else uses
    shared_manifests: tuple[ManifestId, ...]  # that hold chunks of other arrays too
    chunks: IdSet  # objects that nothing else uses
    chunk_bytes: int  # in these, and blanked in others
    blanked: Parts  # of objects that others use too, for other parts
    remaining: tuple[Remaining, ...]


def find_contents(store: ObjectStore, traces: Traces, executor: Executor) -> Contents:
    """Reads all manifests if the arrays have chunks in the repository."""
    used, kept = traces.manifests.done(), traces.kept_manifests.done()
    found = Found(frozenset(traces.removed), frozenset(traces.gone))
    for part in executor.run(ReadUsed(used.ids(), kept, found.nothing()), len(used), _READING):
        found.add(part)
    shared = tuple(found.manifests)
    only = used.ids()[~kept.contains(used.ids())]
    orphans = _orphans(store, found, IdSet.union([used, kept]), executor) if traces.removed else []
    doomed, others = _not_kept(found, kept, executor)
    inside = found.parts_in(IdSet.of(others.chunk_id))
    is_shared = overlapping(inside, others)
    blanked = inside.take(np.flatnonzero(~is_shared))
    remaining = [*found.virtual_files()]
    if is_shared.any():
        text = f"{int(is_shared.sum())} chunks are those of other arrays too, and stay"
        remaining.append(Remaining("shared-chunks", "chunks/", text))
    return Contents(
        manifests=IdSet.of(np.concatenate([only, _ids(orphans)])),
        shared_manifests=shared,
        chunks=doomed,
        chunk_bytes=found.parts_in(doomed).bytes + blanked.bytes,
        blanked=blanked,
        remaining=tuple(remaining),
    )


@dataclass(slots=True)
class Found:
    """References of removed arrays, in the manifests looked at so far."""

    removed: frozenset[NodeId]
    gone: frozenset[NodeId]
    parts: list[Parts] = field(default_factory=list)
    locations: set[str] = field(default_factory=set)
    manifests: list[ManifestId] = field(default_factory=list)  # those that were looked for

    def nothing(self) -> "Found":
        return Found(self.removed, self.gone)

    def take(self, manifest: Manifest) -> None:
        for node_id, refs in manifest.arrays.items():
            if node_id in self.removed:
                self._take(refs)

    def _take(self, refs: ChunkRefs) -> None:
        self.parts.append(Parts.native(refs))
        self.locations |= {text for text in refs.location.pruned().strings.to_texts() if text}

    def add(self, later: "Found") -> None:
        self.parts += later.parts
        self.locations |= later.locations
        self.manifests += later.manifests

    def chunk_ids(self) -> IdSet:
        return IdSet.of(Parts.concat(self.parts).chunk_id)

    def parts_in(self, chunks: IdSet) -> Parts:
        """Parts of these objects, each once, by object and offset."""
        parts = Parts.concat(self.parts)
        return parts.take(np.flatnonzero(chunks.contains(parts.chunk_id))).distinct()

    def virtual_files(self) -> Iterator[Remaining]:
        places = sorted(self.locations)
        for place in places[:SHOWN]:
            yield Remaining("virtual-file", place, "has chunks of it")
        if len(places) > SHOWN:
            text = f"{len(places) - SHOWN} more files have chunks of it"
            yield Remaining("virtual-file", "...", text)


def overlapping(parts: Parts, others: Parts) -> npt.NDArray[np.bool_]:
    """True for the parts that share a byte with one of the others."""
    found = np.zeros(len(parts), dtype=np.bool_)
    keys, other_keys = id_keys(parts.chunk_id), id_keys(others.chunk_id)
    for key in np.unique(other_keys):
        rows, theirs = np.flatnonzero(keys == key), others.take(np.flatnonzero(other_keys == key))
        start, stop = parts.offset[rows], parts.offset[rows] + parts.length[rows]
        for first, length in zip(theirs.offset, theirs.length, strict=True):
            found[rows] |= (start < first + length) & (stop > first)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class ReadUsed:
    """Manifests of removed arrays; those looked for are the ones that other arrays keep."""

    ids: Ids
    kept: IdSet
    wanted: Found

    def __call__(self, files: Files, rows: range) -> Found:
        found = self.wanted.nothing()
        for manifest in _manifests(files, self.ids, rows):
            is_kept = bool(self.kept.contains(_ids([manifest.id]))[0])
            found.take(manifest)
            if is_kept and not found.gone.isdisjoint(manifest.arrays):
                found.manifests.append(manifest.id)
        return found


@dataclass(frozen=True, slots=True, eq=False)
class ReadOthers:
    """Task: parts of some chunk objects that arrays which stay use."""

    ids: Ids
    chunks: IdSet
    gone: frozenset[NodeId]

    def __call__(self, files: Files, rows: range) -> Parts:
        others: list[Parts] = []
        for manifest in _manifests(files, self.ids, rows):
            for node_id, refs in manifest.arrays.items():
                if node_id not in self.gone:
                    parts = Parts.native(refs)
                    others.append(parts.take(np.flatnonzero(self.chunks.contains(parts.chunk_id))))
        return Parts.concat(others).distinct()


@dataclass(frozen=True, slots=True, eq=False)
class ReadOrphans:
    """Manifests that no snapshot uses; those looked for are of arrays that are gone."""

    ids: Ids
    wanted: Found

    def __call__(self, files: Files, rows: range) -> Found:
        found = self.wanted.nothing()
        for row in rows:
            with suppress(FormatError):  # cut off by a power failure: of nothing that is known
                manifest = files.fetch_manifest(ManifestId(self.ids[row].tobytes()))
                if manifest.arrays and manifest.arrays.keys() <= found.gone:
                    found.take(manifest)
                    found.manifests.append(manifest.id)
        return found


def _not_kept(found: Found, kept: IdSet, executor: Executor) -> tuple[IdSet, Parts]:
    """Chunk objects that no other array uses, and what others use of the rest, each part once."""
    wanted = found.chunk_ids()
    count = len(kept) if len(wanted) else 0
    parts = list(executor.run(ReadOthers(kept.ids(), wanted, found.gone), count, _READING))
    used = Parts.concat(parts).distinct()
    ids = wanted.ids()
    return IdSet.of(ids[~IdSet.of(used.chunk_id).contains(ids)]), used


def _orphans(
    store: ObjectStore, found: Found, known: IdSet, executor: Executor
) -> list[ManifestId]:
    """Manifests that no snapshot uses, of arrays that are gone."""
    stored = stored_ids(store, FileKind.MANIFEST)
    orphans = stored[~known.contains(stored)]
    names: list[ManifestId] = []
    wanted = found.nothing()
    for part in executor.run(ReadOrphans(orphans, wanted), len(orphans), _READING):
        found.add(part)
        names += part.manifests
    return names


def _manifests(files: Files, ids: Ids, rows: range) -> Iterator[Manifest]:
    wanted = [ManifestId(raw.tobytes()) for raw in ids[rows.start : rows.stop]]
    for start in range(0, len(wanted), _AT_ONCE):
        yield from files.pool.map(files.fetch_manifest, wanted[start : start + _AT_ONCE])


def _ids(manifests: Iterable[ManifestId]) -> Ids:
    raw = b"".join(each.raw for each in manifests)
    return np.frombuffer(raw, dtype=np.uint8).reshape(-1, ManifestId.size)
