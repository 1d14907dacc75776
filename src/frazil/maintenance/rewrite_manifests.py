"""Rewrites all manifests of a branch's tip, split as configured now.

    plan      what the tip has, and jobs that read some old manifests and write some new ones
    write     the jobs, as many at a time as fit into memory
    commit    one snapshot with the new manifests; its content is that of its parent

Nothing is compared: settings of compression take effect as well as those of splitting.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from operator import attrgetter
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from frazil.engine.changes.attached_manifests import AttachedManifest
from frazil.engine.commit.splitting import cell_sizes, split
from frazil.engine.files.files import Files
from frazil.engine.repository import Repository
from frazil.engine.session.session import Session
from frazil.errors import ConflictError, FormatError
from frazil.flatbuf.flexbuffers import Json
from frazil.format.chunk_index import ChunkSet
from frazil.format.chunk_refs import ChunkRefs
from frazil.format.conditions import SplitAnyDimension, SplitPathMatches
from frazil.format.config import ManifestConfig, ManifestSplittingConfig, RepositoryConfig
from frazil.format.config_codec import encode_config
from frazil.format.manifest import Manifest
from frazil.format.nodes import ArrayData, ManifestRef, Node
from frazil.ids import ManifestId, NodeId, SnapshotId
from frazil.maintenance.executor import (
    Executor,
    ThreadExecutor,
    quiet_files,
    require_current,
    wave_spans,
    waves,
)
from frazil.paths import NodePath

# Jobs that rewrite manifests by the cells of another splitting. Pure.
#
# The cells of an array's grid are numbered in row-major order. A job writes the manifests of a
# range of cells, and reads every old manifest that may hold references of it. Where old manifests
# and new cells are cut along the same lines each old one is read by one job; where they are not,
# those at the edges of a range are read by two.

_MAX_NUMBER = 2**62  # of a cell, so that numbers fit a column


@dataclass(frozen=True, slots=True)
class RewriteJob:
    """Cells `first` to `stop` of one array, and the manifests that may reach into them."""

    path: NodePath
    node: NodeId
    grid: tuple[int, ...]
    cell: tuple[int, ...]
    first: int
    stop: int
    manifests: tuple[ManifestId, ...]
    refs: int  # in these manifests, of other cells and arrays too

    def parts(self, found: Sequence[ChunkRefs]) -> list[ChunkRefs]:
        """References of each cell of the job that has any, in order, from those of its manifests.

        Of two for a chunk the one in the first manifest counts, as for readers.
        """
        fitting = [refs for refs in found if refs.ndim == len(self.grid)]
        if not fitting:
            return []
        refs = _first_wins(fitting).within(self.grid)
        counts = _counts(self.grid, self.cell)
        if (self.first, self.stop) != (0, prod(counts)):
            numbers = _numbers(refs.index // np.array(self.cell, dtype=np.uint32), counts)
            refs = refs.take(np.flatnonzero((numbers >= self.first) & (numbers < self.stop)))
        return split(refs, self.cell)


def plan_jobs(
    node: Node,
    array: ArrayData,
    *,
    cell: tuple[int, ...],
    num_refs: Mapping[ManifestId, int],
    most: int,
) -> list[RewriteJob]:
    """Jobs in the order of cells; none if no manifest reaches into the grid."""
    counts = _counts(array.num_chunks, cell)
    whole = prod(counts)
    inside = list(_manifests_in_grid(array.manifests, counts, cell)) if whole else []
    if not inside:
        return []
    refs = [num_refs.get(ref.id, 0) for ref, _, _ in inside]
    if whole > _MAX_NUMBER or sum(refs) <= most:
        edges = [0, whole]
    else:
        numbers = _numbers(np.array([first for _, first, _ in inside], dtype=np.uint32), counts)
        edges = [0, *_cuts(numbers, np.array(refs, dtype=np.int64), most), whole]
    spans = _spans(inside, counts, whole)
    jobs = []
    for first, stop in pairwise(edges):
        chosen = np.flatnonzero((spans[:, 0] < stop) & (spans[:, 1] >= first)).tolist()
        jobs.append(
            RewriteJob(
                path=node.path,
                node=node.id,
                grid=array.num_chunks,
                cell=cell,
                first=first,
                stop=stop,
                manifests=tuple(inside[at][0].id for at in chosen),
                refs=sum(refs[at] for at in chosen),
            )
        )
    return jobs


def _first_wins(parts: list[ChunkRefs]) -> ChunkRefs:
    if len(parts) == 1:
        return parts[0]
    refs = ChunkRefs.concat(parts)  # in order already, as a rule, and then nothing is sorted
    return refs if len(refs) == sum(map(len, parts)) else ChunkRefs.concat(parts[::-1])


type _Inside = list[tuple[ManifestRef, tuple[int, ...], tuple[int, ...]]]


def _manifests_in_grid(
    manifests: Sequence[ManifestRef], counts: tuple[int, ...], cell: tuple[int, ...]
) -> Iterator[tuple[ManifestRef, tuple[int, ...], tuple[int, ...]]]:
    """Manifests that reach into the grid, with the first and the last cell they may reach into."""
    for ref in manifests:
        if len(ref.extents) != len(counts):
            yield ref, (0,) * len(counts), tuple(count - 1 for count in counts)
            continue
        first = tuple(start // size for (start, _), size in zip(ref.extents, cell, strict=True))
        if all(at < count for at, count in zip(first, counts, strict=True)):
            ends = zip(ref.extents, cell, counts, strict=True)
            yield ref, first, tuple(min((e[1] - 1) // size, n - 1) for e, size, n in ends)


def _spans(inside: _Inside, counts: tuple[int, ...], whole: int) -> npt.NDArray[np.int64]:
    """(n, 2) numbers of the first and the last cell of each."""
    if whole > _MAX_NUMBER:
        return np.tile(np.array([0, _MAX_NUMBER], dtype=np.int64), (len(inside), 1))
    ends = [
        _numbers(np.array([each[k] for each in inside], dtype=np.uint32), counts) for k in (1, 2)
    ]
    return np.stack(ends, axis=1)


def _cuts(first: npt.NDArray[np.int64], refs: npt.NDArray[np.int64], most: int) -> list[int]:
    """Cells at which a job ends: where old manifests begin, after `most` references or fewer."""
    order = np.argsort(first, kind="stable")
    cuts, held = list[int](), 0
    for at, count in zip(first[order].tolist(), refs[order].tolist(), strict=True):
        if held and held + count > most and at > (cuts[-1] if cuts else 0):
            cuts.append(at)
            held = 0
        held += count
    return cuts


def _counts(grid: Sequence[int], cell: Sequence[int]) -> tuple[int, ...]:
    """Cells along each axis."""
    return tuple(-(-chunks // size) for chunks, size in zip(grid, cell, strict=True))


def _numbers(cells: npt.NDArray[np.uint32], counts: tuple[int, ...]) -> npt.NDArray[np.int64]:
    numbers = np.zeros(len(cells), dtype=np.int64)
    for axis, count in enumerate(counts):
        numbers *= count
        numbers += cells[:, axis]
    return numbers


type CommitMethod = Literal["new_commit", "amend"]

REFS_AT_ONCE = 300_000  # in memory, a few times over
_RESERVED = "__icechunk"
_UNSPLIT = ManifestSplittingConfig(
    split_sizes=((SplitPathMatches(".*"), ((SplitAnyDimension(), 2**32 - 1),)),)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RewritePlan:
    branch: str
    snapshot: SnapshotId  # at the tip
    commit_method: CommitMethod
    arrays: tuple[NodePath, ...]  # those that have manifests
    manifests: int  # read, each counted once for an array
    references: int  # in them
    bytes: int
    jobs: tuple[RewriteJob, ...]


@dataclass(frozen=True, slots=True)
class Rewritten:
    """Manifests that a job wrote; `first` is that of the job, and orders the jobs of an array."""

    path: NodePath
    first: int
    manifests: tuple[AttachedManifest, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteManifestsResult:
    snapshot: str
    arrays: int
    manifests_before: int
    manifests: int
    references: int
    bytes: int


def plan_rewrite_manifests(
    repository: Repository, branch: str, commit_method: CommitMethod = "new_commit"
) -> RewritePlan:
    """Reads the snapshot only."""
    _require_method(repository, commit_method)
    require_current(repository)
    session = repository.writable_session(branch)  # raises if nothing may be written
    files = {file.id: file for file in session.base.manifest_files}
    num_refs = {each: file.num_refs for each, file in files.items()}
    jobs: list[RewriteJob] = []
    arrays, read = [], list[ManifestId]()
    for node in session.base.nodes:
        if node.array is None or not node.array.manifests:
            continue
        cell = cell_sizes(session.files.settings.splitting, node)
        arrays.append(node.path)
        read += [ref.id for ref in node.array.manifests]
        jobs += plan_jobs(node, node.array, cell=cell, num_refs=num_refs, most=REFS_AT_ONCE)
    known = {each: files[each] for each in read if each in files}
    return RewritePlan(
        branch=branch,
        snapshot=session.snapshot_id,
        commit_method=commit_method,
        arrays=tuple(arrays),
        manifests=len(read),
        references=sum(file.num_refs for file in known.values()),
        bytes=sum(file.size_bytes for file in known.values()),
        jobs=tuple(jobs),
    )


def rewrite_manifests(
    repository: Repository,
    plan: RewritePlan,
    message: str,
    executor: Executor | None = None,
    *,
    metadata: Mapping[str, Any] | None = None,
) -> RewriteManifestsResult:
    """Raises ConflictError if the branch is no longer where it was when this was planned."""
    written = write_manifests(plan, executor or ThreadExecutor(quiet_files(repository)))
    return commit_rewritten(repository, plan, written, message, metadata)


def write_manifests(plan: RewritePlan, executor: Executor) -> list[Rewritten]:
    """Runs the jobs of the plan; the results are in their order."""
    refs = np.array([job.refs for job in plan.jobs], dtype=np.int64)
    write, spans = WriteJobs(plan.jobs), wave_spans(refs, REFS_AT_ONCE)
    results = executor.run(write, len(plan.jobs), "rewriting manifests", spans=spans)
    return [written for some in results for written in some]


@dataclass(frozen=True, slots=True)
class WriteJobs:
    """Runs jobs, as many at a time as fit into memory."""

    jobs: tuple[RewriteJob, ...]

    def __call__(self, files: Files, rows: range) -> list[Rewritten]:
        jobs, written = self.jobs[rows.start : rows.stop], list[Rewritten]()
        for wave in waves([job.refs for job in jobs], REFS_AT_ONCE):
            written += _write_jobs(files, jobs[wave])
        files.store.sync()
        return written


def _write_jobs(files: Files, jobs: Sequence[RewriteJob]) -> list[Rewritten]:
    """Runs all of them at once: what they read is in memory together."""
    wanted = list(dict.fromkeys(each for job in jobs for each in job.manifests))
    loaded = dict(zip(wanted, files.pool.map(files.fetch_manifest, wanted), strict=True))
    parts: list[tuple[int, ChunkRefs]] = []
    for number, job in enumerate(jobs):
        found = [loaded[each].arrays.get(job.node) for each in job.manifests]
        parts += [
            (number, part) for part in job.parts([refs for refs in found if refs is not None])
        ]
    del loaded

    def put(part: tuple[int, ChunkRefs]) -> AttachedManifest:
        number, refs = part
        manifest = Manifest(id=ManifestId.random(), arrays={jobs[number].node: refs})
        return AttachedManifest(
            file=files.put_manifest(manifest),
            extents=refs.bounding_box(),
            changed=ChunkSet.of(np.zeros((0, refs.ndim), dtype=np.uint32)),
        )

    by_job: list[list[AttachedManifest]] = [[] for _ in jobs]
    for (number, _), stored in zip(parts, files.pool.map(put, parts), strict=True):
        by_job[number].append(stored)
    return [
        Rewritten(job.path, job.first, tuple(some)) for job, some in zip(jobs, by_job, strict=True)
    ]


def commit_rewritten(
    repository: Repository,
    plan: RewritePlan,
    written: Iterable[Rewritten],
    message: str,
    metadata: Mapping[str, Any] | None = None,
) -> RewriteManifestsResult:
    """Commits one snapshot with the manifests of all jobs, which may be in any order."""
    session = _session_at(repository, plan)
    by_path: dict[NodePath, list[AttachedManifest]] = {path: [] for path in plan.arrays}
    for done in sorted(written, key=attrgetter("first")):
        by_path[done.path] += done.manifests
    for path, manifests in by_path.items():
        array = session.node(path).array
        replaced = () if array is None else tuple(ref.id for ref in array.manifests)
        session.attach_manifests(path, manifests, replaced)
    conclude = session.amend if plan.commit_method == "amend" else session.commit
    snapshot = conclude(message, _with_splitting(repository, metadata), allow_empty=True)
    new = [each.file for manifests in by_path.values() for each in manifests]
    return RewriteManifestsResult(
        snapshot=str(snapshot),
        arrays=len(plan.arrays),
        manifests_before=plan.manifests,
        manifests=len(new),
        references=sum(file.num_refs for file in new),
        bytes=sum(file.size_bytes for file in new),
    )


def _session_at(repository: Repository, plan: RewritePlan) -> Session:
    session = repository.writable_session(plan.branch)
    if session.snapshot_id != plan.snapshot:
        raise ConflictError(
            message=f"branch `{plan.branch}` is at {session.snapshot_id}, expected {plan.snapshot}",
            expected_parent=str(plan.snapshot),
            actual_parent=str(session.snapshot_id),
        )
    return session


def _with_splitting(repository: Repository, metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    """Commit metadata that tells how manifests are split, where the reference notes it."""
    given = dict(metadata or {})
    reserved = given.get(_RESERVED)
    splitting = {"splitting_config": _encode_splitting(repository.config)}
    return {**given, _RESERVED: {**(reserved if isinstance(reserved, dict) else {}), **splitting}}


def _encode_splitting(config: RepositoryConfig) -> Json:
    chosen = None if config.manifest is None else config.manifest.splitting
    told = RepositoryConfig(manifest=ManifestConfig(splitting=chosen or _UNSPLIT))
    match encode_config(told):
        case {"manifest": {"splitting": splitting}}:
            return splitting
        case _:
            return None


def _require_method(repository: Repository, method: str) -> None:
    if method not in ("new_commit", "amend"):
        raise ValueError(f"Invalid commit method: {method!r}. Expected 'new_commit' or 'amend'.")
    if method == "amend" and repository.spec_version == 1:
        raise FormatError(
            "amend is not supported for spec version 1 repositories, use new commit instead",
            kind="unsupported-operation-for-version",
        )
