"""Jobs that rewrite manifests by the cells of another splitting. Pure.

The cells of an array's grid are numbered in row-major order. A job writes the manifests of a range
of cells, and reads every old manifest that may hold references of it. Where old manifests and new
cells are cut along the same lines each old one is read by one job; where they are not, those at
the edges of a range are read by two.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

import numpy as np
import numpy.typing as npt

from frazil.format.chunk_refs import ChunkRefs
from frazil.format.nodes import ArrayData, ManifestRef, Node
from frazil.ids import ManifestId, NodeId
from frazil.paths import NodePath
from frazil.repo.splitting import split

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
    inside = list(_inside(array.manifests, counts, cell)) if whole else []
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


def _inside(
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
