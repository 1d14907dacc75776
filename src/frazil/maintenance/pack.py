"""Small chunk objects put together into packs, each one object that holds many chunks.

    plan      which chunks of the branch's tip are small, and which of them go together
    write     packs, in waves of bounded size; here, or elsewhere
    commit    one snapshot that refers to the packs; what it holds is what its parent holds

The objects that were packed stay until no snapshot needs them any more and garbage is collected:
until then the bytes are stored twice. Virtual and inline chunks are not touched.

An object is small by what the tip refers to in it: one chunk, or a few that were stored together,
or what is left of a pack. Chunks go together in the order of the scan. An array whose small chunks
fill a pack has packs of its own; the others share theirs. What is in one object already, and would
be in one again, stays; and every other pack is larger than what is small: so packing twice does
nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from frazil.assets.files import Files
from frazil.assets.layout import chunk_key
from frazil.errors import InvalidInputError
from frazil.ids import ChunkId, ManifestId, SnapshotId
from frazil.maintenance.chunk_parts import Ids, Parts, Relocation, grouped, random_ids
from frazil.maintenance.defaults import PACK_BYTES, SMALL_BYTES
from frazil.maintenance.part_scan import Ints, PartScan, scan_parts
from frazil.maintenance.progress import Progress
from frazil.maintenance.quiet_files import quiet_files, require_current
from frazil.maintenance.relocate import NewManifests, RelocationRequest, relocate
from frazil.maintenance.waves import waves
from frazil.paths import ROOT, NodePath
from frazil.repo.commit_metadata import require_json, with_notes
from frazil.repo.repository import Repository

BYTES_AT_ONCE = 128 << 20  # of chunks, in memory


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PackPlan:
    """Row i of `chunks` goes to pack `pack[i]`, after the rows of that pack before it."""

    branch: str
    snapshot: SnapshotId
    paths: tuple[NodePath, ...]
    chunks: Parts  # each once
    pack: Ints  # ascending from 0
    references: int  # to these chunks
    untouched: frozenset[ManifestId]  # manifests that refer to none of them
    manifests: tuple[ManifestId, ...]  # those that do

    @property
    def packs(self) -> int:
        return int(self.pack[-1]) + 1 if len(self.pack) else 0

    @property
    def bytes(self) -> int:
        return self.chunks.bytes

    @property
    def pack_bytes(self) -> Ints:
        """Of each pack."""
        held = np.bincount(self.pack, weights=self.chunks.length, minlength=self.packs)
        return held.astype(np.int64)

    def rows(self, pack: int) -> slice:
        return slice(*np.searchsorted(self.pack, [pack, pack + 1]).tolist())


@dataclass(frozen=True, slots=True, kw_only=True)
class PackResult:
    """`snapshot` is None if there was nothing to do."""

    snapshot: SnapshotId | None
    chunks: int
    packs: int
    bytes: int
    references: int
    manifests: int


def plan_pack(
    repository: Repository,
    branch: str,
    paths: Sequence[NodePath] = (ROOT,),
    *,
    small_bytes: int = SMALL_BYTES,
    pack_bytes: int = PACK_BYTES,
) -> PackPlan:
    """Reads the manifests of the arrays chosen.

    Chunks of at most `small_bytes` go into packs of about `pack_bytes`, which must be twice as
    much: then a pack has two chunks or more.
    """
    if small_bytes < 1 or pack_bytes < 2 * small_bytes:
        raise InvalidInputError(
            f"packs of {pack_bytes} bytes for chunks of up to {small_bytes}:"
            " they must be twice as large, or more"
        )
    require_current(repository)
    session = repository.writable_session(branch)  # raises if nothing may be written
    scan = scan_parts(quiet_files(repository), session.base, paths, longest=small_bytes)
    first, part = grouped(scan.parts.columns)
    in_order = np.sort(first)
    rows, pack = _arranged(scan.take(in_order), small_bytes, pack_bytes)
    chunks = scan.parts.take(in_order[rows])
    is_chosen = np.zeros(len(first), dtype=np.bool_)
    is_chosen[part[in_order[rows]]] = True
    chosen = is_chosen[part]
    touched = scan.manifests_with(chosen)
    return PackPlan(
        branch=branch,
        snapshot=session.snapshot_id,
        paths=tuple(paths),
        chunks=chunks,
        pack=pack,
        references=int(chosen.sum()),
        untouched=frozenset(scan.manifests) - touched,
        manifests=tuple(each for each in scan.manifests if each in touched),
    )


def pack(
    repository: Repository,
    plan: PackPlan,
    message: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    *,
    progress: Progress | None = None,
) -> PackResult:
    """Commits on top of whatever the branch's tip is by then."""
    files = quiet_files(repository)
    names = [random_ids(0)]
    for wave in waves(plan.pack_bytes, BYTES_AT_ONCE):
        names.append(write_packs(files, plan, range(wave.start, wave.stop)))
        if progress is not None:
            progress("packing chunks", wave.stop, plan.packs)
    repository.store.sync()
    return commit_packs(repository, plan, np.concatenate(names), message, metadata)


def write_packs(files: Files, plan: PackPlan, packs: range) -> Ids:
    """The names of these packs, which are stored; on an executor call the store's `sync` then."""
    names = random_ids(len(packs))
    edges = [plan.rows(number) for number in packs]
    chunks = plan.chunks.take(slice(edges[0].start, edges[-1].stop))
    data = files.chunks.fetch_many(chunks.chunk_id, chunks.offset, chunks.length)
    start = edges[0].start

    def put(number: int) -> None:
        rows = edges[number]
        body = b"".join(data[rows.start - start : rows.stop - start])
        files.store.put(chunk_key(ChunkId(names[number].tobytes())), body)

    files.pool.map(put, range(len(packs)))
    return names


def commit_packs(
    repository: Repository,
    plan: PackPlan,
    names: Ids,
    message: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    *,
    written: NewManifests | None = None,
) -> PackResult:
    """One snapshot with references into these packs, one name each; nothing if there are none.

    `written` are manifests of the plan that others have written with `placed`.
    """
    done = None
    if plan.packs:
        request = RelocationRequest(
            branch=plan.branch,
            paths=plan.paths,
            message=message or f"Pack {len(plan.chunks)} chunks into {plan.packs} objects",
            metadata=with_notes(require_json(metadata or {}), {"packed": len(plan.chunks)}),
        )
        known = dict.fromkeys(plan.untouched) | dict(written or {})
        done = relocate(repository, request, placed(plan, names), known)
    return PackResult(
        snapshot=None if done is None else done.snapshot,
        chunks=len(plan.chunks),
        packs=plan.packs,
        bytes=plan.bytes,
        references=plan.references,
        manifests=0 if done is None else done.manifests,
    )


def placed(plan: PackPlan, names: Ids) -> Relocation:
    """Where the chunks are in packs of these names."""
    return Relocation.of(plan.chunks, names[plan.pack], _starts(plan.chunks.length, plan.pack))


def _arranged(scan: PartScan, small_bytes: int, pack_bytes: int) -> tuple[Ints, Ints]:
    """Rows in the order of packs, and the pack of each; every part is there once."""
    length = scan.parts.length.astype(np.int64)
    is_small = (length > 0) & (length <= small_bytes)
    _, source = grouped(scan.parts.columns[:2])
    held = np.bincount(source, weights=length)  # by object, what is referred to
    fills = np.bincount(scan.array, weights=np.where(is_small, length, 0)) >= pack_bytes
    rows = np.flatnonzero(is_small & (held[source] <= small_bytes)) if len(source) else source
    run = np.where(fills[scan.array[rows]], scan.array[rows] + 1, 0)
    rows = rows[np.argsort(run, kind="stable")].astype(np.int64)
    run, length, source = np.sort(run), length[rows], source[rows]
    group = _groups(run, length, small_bytes, pack_bytes)
    pairs = np.unique(group * (source.max(initial=0) + 1) + source)
    sources = np.bincount(pairs // (source.max(initial=0) + 1))
    several = sources[group] > 1
    return rows[several], np.unique(group[several], return_inverse=True)[1].reshape(-1)


def _groups(run: Ints, length: Ints, small_bytes: int, pack_bytes: int) -> Ints:
    """Numbers of packs: each of one run, and of about `pack_bytes`."""
    number = _starts(length, run).astype(np.int64) // pack_bytes
    new = np.ones(len(run), dtype=np.bool_)
    new[1:] = (run[1:] != run[:-1]) | (number[1:] != number[:-1])
    group = np.cumsum(new) - 1
    first = np.flatnonzero(new)
    is_rest = np.bincount(group, weights=length) <= small_bytes
    is_rest[1:] &= run[first[1:]] == run[first[:-1]]
    is_rest[:1] = False
    new[first[is_rest]] = False  # the rest of a run joins what comes before it
    return (np.cumsum(new) - 1).astype(np.int64)


def _starts(length: npt.NDArray[Any], group: Ints) -> npt.NDArray[np.uint64]:
    """Where each begins, counted from the beginning of its group; groups are runs of rows."""
    ends = np.cumsum(length.astype(np.uint64), dtype=np.uint64)
    starts = ends - length.astype(np.uint64)
    first = np.flatnonzero(np.append(True, group[1:] != group[:-1])) if len(group) else group
    return starts - np.repeat(starts[first], np.diff(np.append(first, len(group))))
