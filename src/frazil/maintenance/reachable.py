"""Files reachable from a set of snapshots: ancestors, manifests, chunk objects, in columns.

    roots -> snapshots     parents are a column of the repo info (files of their own in version 1)
    snapshots -> manifests the list in each snapshot file; its nodes are not decoded
    manifests -> chunks    ids of the native references; nothing else of them is decoded

Files are read past the caches, which would evict what sessions need. A file that cannot be read
raises: the caller, who deletes unreachable files, must not guess.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from itertools import batched

import numpy as np
import numpy.typing as npt

from frazil.engine.files.files import Files, annotate_errors
from frazil.engine.files.object_keys import MANIFESTS, SNAPSHOTS
from frazil.errors import FormatError
from frazil.flatbuf.ragged import Ints
from frazil.format.chunk_refs import RefKind
from frazil.format.projections import decode_chunk_ids, decode_manifest_files
from frazil.format.repo_info import RepoInfo
from frazil.format.snapshot import ManifestFiles
from frazil.ids import ManifestId, SnapshotId, format_ids
from frazil.maintenance.executor import Progress, prefetch_results
from frazil.maintenance.id_sets import GrowingIdSet, Ids, IdSet, id_halves, sort_order
from frazil.objectstore.pool import Pool
from frazil.objectstore.protocol import Data

_BYTES_PER_REF = 150  # of a decoded manifest, about
_UNKNOWN_BYTES = 1 << 20  # assumed for a manifest whose size is not recorded
_SNAPSHOTS_TOGETHER = 32
_SNAPSHOTS_FIRST = 8  # before it is known how large they are
_BYTES_TOGETHER = 1 << 20  # of manifests: larger ones gain nothing by company
_DECODED_TOGETHER = 1 << 22
_DECODERS = min(4, os.cpu_count() or 1)  # more would wait for each other, with more in memory


def decoder_pool() -> Pool:
    """Threads that decode. The fewer, the better: each keeps the memory that decoding took."""
    return Pool(_DECODERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Limits of what is in memory, and in flight, at a time."""

    snapshots: int = 256
    compressed_bytes: int = 16 << 20  # of manifests
    decoded_bytes: int = 32 << 20  # of manifests, about

    def limited(
        self,
        *,
        snapshots: int | None = None,
        compressed_bytes: int | None = None,
        decoded_bytes: int | None = None,
    ) -> "Budget":
        """The budget reduced to what the caller allows."""
        return Budget(
            snapshots=max(1, min(self.snapshots, snapshots or self.snapshots)),
            compressed_bytes=min(self.compressed_bytes, compressed_bytes or self.compressed_bytes),
            decoded_bytes=min(self.decoded_bytes, decoded_bytes or self.decoded_bytes),
        )

    def halved(self) -> "Budget":
        return Budget(
            snapshots=max(1, self.snapshots // 2),
            compressed_bytes=self.compressed_bytes // 2,
            decoded_bytes=self.decoded_bytes // 2,
        )

    def holds_each(self, manifests: ManifestFiles) -> bool:
        """True if each manifest fits."""
        stored = int(manifests.size_bytes.max(initial=0))
        decoded = int(manifests.num_refs.max(initial=0)) * _BYTES_PER_REF
        return stored <= self.compressed_bytes and decoded <= self.decoded_bytes


def limit_concurrency(files: Files, width: int) -> Files:
    """The same files, with no more than so many requests at a time."""
    if width >= files.pool.width:
        return files
    fewer = copy(files)
    fewer.pool = Pool(width)
    return fewer


def root_rows(info: RepoInfo) -> list[int]:
    """Rows of the snapshots that branches and tags point to."""
    return sorted({*info.branches.values(), *info.tags.values()})


def reachable_rows(info: RepoInfo, roots: Iterable[int]) -> Ints:
    """Rows of these snapshots and of all their ancestors, in ascending order."""
    seen = set[int]()
    for root in roots:
        for row in info.snapshots.ancestors(root):
            if row in seen:
                break
            seen.add(row)
    return np.array(sorted(seen), dtype=np.int64)


def ids_of_rows(info: RepoInfo, rows: Sequence[int] | Ints) -> npt.NDArray[np.uint8]:
    """Ids of these snapshots, (n, 12)."""
    if not info.lists_snapshots:  # they are found one after the other
        raw = b"".join(info.snapshots.id(int(row)).raw for row in rows)
        return np.frombuffer(raw, dtype=np.uint8).reshape(-1, 12)
    return info.snapshots.ids[np.asarray(rows, dtype=np.int64)]


def manifests_of(
    files: Files,
    snapshots: npt.NDArray[np.uint8],
    *,
    budget: Budget | None = None,
    progress: Progress | None = None,
) -> ManifestFiles:
    """The manifests that these snapshots, (n, 12), list: each once, in ascending order of id."""
    found = ManifestFiles.none()
    for some in manifests_by_snapshot(files, snapshots, budget=budget, progress=progress):
        found = merge_manifest_files([found, *some])
    return found


def manifests_by_snapshot(
    files: Files,
    snapshots: npt.NDArray[np.uint8],
    *,
    budget: Budget | None = None,
    progress: Progress | None = None,
) -> Iterator[list[ManifestFiles]]:
    """The manifests that each snapshot lists, in the order given, some snapshots at a time."""
    budget = budget or Budget()
    names, decoders = format_ids(snapshots), decoder_pool()
    start, at_once = 0, min(_SNAPSHOTS_FIRST, budget.snapshots)
    while start < len(names):
        some = names[start : start + at_once]
        if not files.has_current_encoding:
            yield files.pool.map(partial(_manifests_of_old_snapshot, files), some)
        else:
            sizes = list[int]()
            groups = list(batched(some, _SNAPSHOTS_TOGETHER))
            found = load_together(files, decoders, SNAPSHOTS, partial(_note_sizes, sizes), groups)
            yield [each for group in found for each in group]
            fit = budget.compressed_bytes * len(sizes) // max(1, sum(sizes))
            at_once = max(_SNAPSHOTS_FIRST, fit)  # those that follow are about as large
        start += len(some)
        at_once = min(at_once, budget.snapshots)
        if progress is not None:
            progress("reading snapshots", start, len(names))


def _note_sizes(sizes: list[int], data: Sequence[Data]) -> list[ManifestFiles]:
    sizes += map(len, data)
    return decode_manifest_files(data)


def merge_manifest_files(parts: Sequence[ManifestFiles]) -> ManifestFiles:
    """Each manifest once, in ascending order of id."""
    every = ManifestFiles(
        np.concatenate([part.ids for part in parts]),
        np.concatenate([part.size_bytes for part in parts]),
        np.concatenate([part.num_refs for part in parts]),
    )
    high, low = id_halves(every.ids)
    order = sort_order(high, low)
    high, low = high[order], low[order]
    new = np.ones(len(order), np.bool_)
    new[1:] = (high[1:] != high[:-1]) | (low[1:] != low[:-1])
    return every.take(order[new])


def chunks_of(
    files: Files,
    manifests: ManifestFiles,
    *,
    budget: Budget | None = None,
    progress: Progress | None = None,
) -> IdSet:
    """The chunk objects that these manifests refer to."""
    found = GrowingIdSet()
    for _, ids in read_chunk_ids(files, manifests, budget=budget, progress=progress):
        found.add(ids)
    return found.done()


def read_chunk_ids(
    files: Files,
    manifests: ManifestFiles,
    *,
    budget: Budget | None = None,
    progress: Progress | None = None,
    decoders: Pool | None = None,
) -> Iterator[tuple[slice, Ids]]:
    """Rows of some manifests, and the ids of the chunk objects that they refer to."""
    if files.has_current_encoding:
        yield from read_together(
            files, manifests, decode_chunk_ids, budget=budget, progress=progress, decoders=decoders
        )
        return
    for row, raw in enumerate(manifests.ids):
        for refs in files.fetch_manifest(ManifestId(raw.tobytes())).arrays.values():
            yield slice(row, row + 1), refs.chunk_id[refs.kind == RefKind.NATIVE]


def read_together[T](
    files: Files,
    manifests: ManifestFiles,
    decode: Callable[[Sequence[Data]], T],
    *,
    budget: Budget | None = None,
    progress: Progress | None = None,
    decoders: Pool | None = None,
) -> Iterator[tuple[slice, T]]:
    """Rows and contents of manifests, in the order given, small ones decoded together.

    Two batches, as large as the budget says together, are in memory: one of them is being read.
    """
    names, allowed = format_ids(manifests.ids), budget or Budget()
    together = Budget(compressed_bytes=_BYTES_TOGETHER, decoded_bytes=_DECODED_TOGETHER)
    pool = decoders or decoder_pool()

    def load(batch: range) -> list[tuple[slice, T]]:
        part = manifests.take(slice(batch.start, batch.stop))
        groups = [
            slice(batch.start + each.start, batch.start + each.stop)
            for each in batches(part, together)
        ]
        named = [tuple(names[rows]) for rows in groups]
        found = load_together(files, pool, MANIFESTS, decode, named)
        return list(zip(groups, found, strict=True))

    spans, prefetch = prefetch_spans(manifests, allowed)
    for some in prefetch_results(load, spans) if prefetch else map(load, spans):
        yield from some
        if progress is not None:
            progress("reading manifests", some[-1][0].stop, len(names))


def read_manifests[T](
    files: Files,
    manifests: ManifestFiles,
    decode: Callable[[Data], T],
    *,
    budget: Budget | None = None,
    progress: Progress | None = None,
) -> Iterator[tuple[int, T]]:
    """Row and content of each manifest, in the order given; a batch of them is in memory."""
    names = format_ids(manifests.ids)
    load = partial(_load, files, MANIFESTS, decode)
    for rows in batches(manifests, budget or Budget()):
        yield from enumerate(files.pool.map(load, names[rows.start : rows.stop]), rows.start)
        if progress is not None:
            progress("reading manifests", rows.stop, len(names))


def prefetch_spans(manifests: ManifestFiles, budget: Budget) -> tuple[list[range], bool]:
    """Batches of which two fit into the budget, and True if the next is to be read in advance.

    A manifest that does not fit into half of the memory is read when nothing else is held.
    """
    half = budget.halved()
    spans = list(batches(manifests, half))
    return spans, len(spans) > 1 and half.holds_each(manifests)


def batches(manifests: ManifestFiles, budget: Budget) -> Iterator[range]:
    """Ranges of rows: as many manifests as fit into the budget, and at least one."""
    sizes = np.where(manifests.size_bytes == 0, _UNKNOWN_BYTES, manifests.size_bytes)
    stored = np.cumsum(sizes.astype(np.int64))
    decoded = np.cumsum(manifests.num_refs.astype(np.int64)) * _BYTES_PER_REF
    start = 0
    while start < len(manifests):
        before = (int(stored[start - 1]), int(decoded[start - 1])) if start else (0, 0)
        stop = min(
            int(np.searchsorted(stored, before[0] + budget.compressed_bytes, side="right")),
            int(np.searchsorted(decoded, before[1] + budget.decoded_bytes, side="right")),
        )
        stop = max(stop, start + 1)
        yield range(start, stop)
        start = stop


def _manifests_of_old_snapshot(files: Files, name: str) -> ManifestFiles:
    found = files.fetch_snapshot(SnapshotId.parse(name)).manifest_files
    return ManifestFiles(
        np.frombuffer(b"".join(file.id.raw for file in found), np.uint8).reshape(-1, 12),
        np.array([file.size_bytes for file in found], np.uint64),
        np.array([file.num_refs for file in found], np.uint32),
    )


def load_together[T](
    files: Files,
    decoders: Pool,
    folder: str,
    decode: Callable[[Sequence[Data]], T],
    groups: Sequence[Sequence[str]],
) -> list[T]:
    """Decodes groups of files. All are read first, as many at a time as the pool allows.

    Few threads decode, and always the same: each keeps the memory that decoding took.
    """
    every = [name for names in groups for name in names]
    data = iter(files.pool.map(lambda name: files.store.get(folder + name).data, every))
    read = [(names, [next(data) for _ in names]) for names in groups]
    return decoders.map(lambda some: _decode_group(folder, decode, *some), read)


def _decode_group[T](
    folder: str, decode: Callable[[Sequence[Data]], T], names: Sequence[str], data: Sequence[Data]
) -> T:
    """Errors name the file they are about."""
    try:
        return decode(data)
    except FormatError:
        for name, each in zip(names, data, strict=True):
            with annotate_errors(folder + name):
                decode([each])
        raise


def _load[T](files: Files, folder: str, decode: Callable[[Data], T], name: str) -> T:
    key = folder + name
    with annotate_errors(key):
        return decode(files.store.get(key).data)
