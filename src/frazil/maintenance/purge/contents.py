"""What the chunks of purged arrays are in: manifests, chunk objects, files outside."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import batched

import numpy as np
import numpy.typing as npt

from frazil.assets.files import Files
from frazil.format.chunk_refs import ChunkRefs
from frazil.format.manifest import Manifest
from frazil.ids import ManifestId, NodeId
from frazil.maintenance.chunk_parts import Parts, id_keys
from frazil.maintenance.id_sets import IdSet
from frazil.maintenance.inventory import FileKind
from frazil.maintenance.purge.history import Traces, stored_ids
from frazil.maintenance.purge.remaining import SHOWN, Remaining

_AT_ONCE = 8  # manifests in memory


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Contents:
    manifests: IdSet  # that nothing else uses
    shared_manifests: tuple[ManifestId, ...]  # that hold chunks of other arrays too
    chunks: IdSet  # objects that nothing else uses
    chunk_bytes: int  # in these, and blanked in others
    blanked: Parts  # of objects that others use too, for other parts
    remaining: tuple[Remaining, ...]


def find_contents(files: Files, traces: Traces) -> Contents:
    """Reads all manifests if the arrays have chunks in the repository."""
    used, kept = traces.manifests.done(), traces.kept_manifests.done()
    found = _Found(traces.removed.keys(), traces.gone)
    shared: list[ManifestId] = []
    for manifest in _manifests(files, used):
        is_kept = bool(kept.contains(_ids([manifest.id]))[0])
        found.take(manifest)
        if is_kept and not found.gone.isdisjoint(manifest.arrays):
            shared.append(manifest.id)
    only = used.ids()[~kept.contains(used.ids())]
    orphans = list(_orphans(files, found, IdSet.union([used, kept]))) if traces.removed else []
    doomed, others = _not_kept(files, found, kept)
    inside = found.parts_in(IdSet.of(others.chunk_id))
    is_shared = overlapping(inside, others)
    blanked = inside.take(np.flatnonzero(~is_shared))
    remaining = [*found.virtual_files()]
    if is_shared.any():
        text = f"{int(is_shared.sum())} chunks are those of other arrays too, and stay"
        remaining.append(Remaining("shared-chunks", "chunks/", text))
    return Contents(
        manifests=IdSet.of(np.concatenate([only, _ids(orphans)])),
        shared_manifests=tuple(shared),
        chunks=doomed,
        chunk_bytes=found.parts_in(doomed).bytes + blanked.bytes,
        blanked=blanked,
        remaining=tuple(remaining),
    )


@dataclass(slots=True)
class _Found:
    """References of removed arrays."""

    removed: Iterable[NodeId]
    gone: set[NodeId]
    parts: list[Parts] = field(default_factory=list)
    locations: set[str] = field(default_factory=set)

    def take(self, manifest: Manifest) -> None:
        for node_id, refs in manifest.arrays.items():
            if node_id in self.removed:
                self._take(refs)

    def _take(self, refs: ChunkRefs) -> None:
        self.parts.append(Parts.native(refs))
        self.locations |= {text for text in refs.location.pruned().strings.to_texts() if text}

    def chunk_ids(self) -> IdSet:
        return IdSet.of(Parts.concat(self.parts).chunk_id)

    def parts_in(self, chunks: IdSet) -> Parts:
        """Of these objects, each once, by object and place in it."""
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
    """Whether each of the parts shares a byte with one of the others."""
    found = np.zeros(len(parts), dtype=np.bool_)
    keys, other_keys = id_keys(parts.chunk_id), id_keys(others.chunk_id)
    for key in np.unique(other_keys):
        rows, theirs = np.flatnonzero(keys == key), others.take(np.flatnonzero(other_keys == key))
        start, stop = parts.offset[rows], parts.offset[rows] + parts.length[rows]
        for first, length in zip(theirs.offset, theirs.length, strict=True):
            found[rows] |= (start < first + length) & (stop > first)
    return found


def _not_kept(files: Files, found: _Found, kept: IdSet) -> tuple[IdSet, Parts]:
    """Chunk objects that no other array uses, and what others use of the rest, each part once."""
    wanted = found.chunk_ids()
    others: list[Parts] = []
    for manifest in _manifests(files, kept) if len(wanted) else ():
        for node_id, refs in manifest.arrays.items():
            if node_id not in found.gone:
                parts = Parts.native(refs)
                others.append(parts.take(np.flatnonzero(wanted.contains(parts.chunk_id))))
    used = Parts.concat(others).distinct()
    ids = wanted.ids()
    return IdSet.of(ids[~IdSet.of(used.chunk_id).contains(ids)]), used


def _orphans(files: Files, found: _Found, known: IdSet) -> Iterator[ManifestId]:
    """Manifests that no snapshot uses, of arrays that are removed."""
    stored = stored_ids(files, FileKind.MANIFEST)
    for manifest in _manifests(files, IdSet.of(stored[~known.contains(stored)])):
        if manifest.arrays and manifest.arrays.keys() <= found.gone:
            found.take(manifest)
            yield manifest.id


def _manifests(files: Files, ids: IdSet) -> Iterator[Manifest]:
    wanted = [ManifestId(raw.tobytes()) for raw in ids.ids()]
    for some in batched(wanted, _AT_ONCE):
        yield from files.pool.map(files.fetch_manifest, some)


def _ids(manifests: Sequence[ManifestId]) -> npt.NDArray[np.uint8]:
    raw = b"".join(each.raw for each in manifests)
    return np.frombuffer(raw, dtype=np.uint8).reshape(-1, ManifestId.size)
