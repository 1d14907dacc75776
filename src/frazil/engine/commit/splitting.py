"""Division of an array's references into manifests by the splitting rules of the configuration.

The chunk grid is cut into cells of `cell` chunks along each dimension; a manifest that frazil
writes holds references of one cell. Only cells in which something changed are rewritten, together
with every manifest that reaches into them (one written under another cell size may cover several).

Rules are tried in order; within a rule and over all of them, the first that matches an axis decides
its size. Axes that no rule matches are not split. Without rules, the number of references decides.
Small arrays of one commit may share manifests.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from frazil.dataclass import dataclass
from frazil.format.chunk_index import Box, SortedKeys, distinct
from frazil.format.chunk_refs import ChunkRefs, RefKind
from frazil.format.conditions import (
    ManifestSplitCondition,
    ManifestSplitDimCondition,
    SplitAnd,
    SplitAnyArray,
    SplitAnyDimension,
    SplitAxis,
    SplitDimensionName,
    SplitNameMatches,
    SplitOr,
    SplitPathMatches,
    regex_matches,
)
from frazil.format.config import ManifestSplittingConfig
from frazil.format.nodes import ManifestRef, Node
from frazil.ids import NodeId

# Division of an array's references into manifests where no splitting is configured.
#
# The chunk grid is cut into bands across an axis, in halves at powers of two, as often as it takes
# until none holds more than MOST references; what is one chunk thick and still holds more is cut
# across another axis. So where to cut follows from what is there: few references are one manifest,
# however large the grid, and many are manifests of some size. Where manifests are, cuts are made
# between them: so they stay where they are while the array grows, and what is appended touches the
# last band alone. What has to be cut first is cut across the axis that it grows along, or the first
# one that is long enough.

MOST: Final = 1 << 16  # references in a manifest: a megabyte or less, compressed

FEW: Final = 8  # manifests that are joined at a time: what was cut finer, others wanted so
_NONE = np.zeros(0, dtype=np.int64)

type Ints = npt.NDArray[np.int64]
type Bounds = list[tuple[int, int]]


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """Manifests of an array, and what the grid has of the chunks they reach over."""

    refs: tuple[ManifestRef, ...]
    counts: Ints  # (k,) references in each; of other arrays too, perhaps
    start: Ints  # (k, ndim)
    stop: Ints  # (k, ndim) exclusive

    @classmethod
    def of(
        cls, refs: Sequence[ManifestRef], counts: Sequence[int], grid: tuple[int, ...]
    ) -> "Stored":
        """One that states no extents may hold any chunk."""
        every = tuple((0, count) for count in grid)
        extents = [ref.extents if len(ref.extents) == len(grid) else every for ref in refs]
        bounds = np.array(extents, dtype=np.int64).reshape(len(refs), len(grid), 2)
        return cls(tuple(refs), np.array(counts, dtype=np.int64), bounds[:, :, 0], bounds[:, :, 1])

    def __len__(self) -> int:
        return len(self.refs)

    def take(self, chosen: Ints) -> "Stored":
        return Stored(
            tuple(self.refs[i] for i in chosen.tolist()),
            self.counts[chosen],
            self.start[chosen],
            self.stop[chosen],
        )

    def outside(self, grid: tuple[int, ...]) -> Ints:
        """Rows of manifests that extend beyond the grid."""
        beyond: Ints = np.flatnonzero((self.stop > np.array(grid, dtype=np.int64)).any(axis=1))
        return beyond


@dataclass(frozen=True, slots=True, eq=False)
class Bands:
    """Manifests that stay, and what is in each of the new ones."""

    keep: tuple[ManifestRef, ...]
    parts: list[ChunkRefs]


def in_bands(
    changed: npt.NDArray[np.uint32],  # (m, ndim) chunk indices
    stored: Stored,
    *,
    grid: tuple[int, ...],
    most: int,
    merged: Callable[[Sequence[ManifestRef]], ChunkRefs],
) -> Bands | None:
    """Plans the manifests of an array whose grid is now `grid`; None if nothing changes.

    `merged` gives all that is set of the changed chunks and, apart from these, in some manifests.
    """
    axes = _axis_order(changed, stored, grid, most)
    rewrite = _affected_manifests(changed, stored, grid, axes, most)
    if not len(rewrite) and not len(changed):
        return None
    rewritten: list[ManifestRef] = []
    while True:
        rewritten += stored.take(rewrite).refs
        stored = stored.take(np.setdiff1d(np.arange(len(stored)), rewrite))
        refs = merged(rewritten)
        if not rewritten and not len(refs):
            return None
        found = _partition(refs.index, stored, grid, axes, most)
        rewrite = found.rewrite
        if not len(rewrite):  # as a rule, after the first time
            return Bands(stored.refs, [refs.take(rows) for rows in found.rows])


def cut_axis(grid: tuple[int, ...], bands: int) -> int:
    """The first axis that so many bands can be cut across, or else the longest."""
    long_enough = (axis for axis, count in enumerate(grid) if count >= bands)
    return next(long_enough, max(range(len(grid)), key=lambda axis: grid[axis], default=0))


def _axis_order(
    changed: npt.NDArray[np.uint32], stored: Stored, grid: tuple[int, ...], most: int
) -> list[int]:
    """Axes in the order in which they are cut where nothing speaks for another one."""
    usual = cut_axis(grid, -(-(len(changed) + int(stored.counts.sum())) // most))
    grows: set[int] = set()
    if len(changed) and len(stored):
        first = Box.around(changed).lo
        grows = {axis for axis in range(len(grid)) if first[axis] >= stored.stop[:, axis].max()}
    return sorted(range(len(grid)), key=lambda axis: (axis not in grows, axis != usual, axis))


@dataclass(frozen=True, slots=True, eq=False)
class _Cut:
    rows: list[slice | Ints]  # of each band
    rewrite: Ints  # stored manifests in these bands, or reaching over a cut


def _affected_manifests(
    changed: npt.NDArray[np.uint32],
    stored: Stored,
    grid: tuple[int, ...],
    axes: Sequence[int],
    most: int,
) -> Ints:
    """Rows of manifests that extend beyond the grid, and of those in changed bands.

    A band with few references is to become one manifest.
    """
    outside = stored.outside(grid)
    if not len(changed) or not len(stored):
        return outside
    if len(stored) <= FEW and len(changed) + int(stored.counts.sum()) <= most:
        return np.arange(len(stored))

    def is_whole(rows: int, there: Ints) -> bool:
        return len(there) <= FEW and rows + int(stored.counts[there].sum()) <= most

    cut = _cut_bands(distinct(changed), stored, grid, axes, is_whole)
    found: Ints = np.union1d(outside, cut.rewrite)
    return found


def _partition(
    index: npt.NDArray[np.uint32],
    stored: Stored,
    grid: tuple[int, ...],
    axes: Sequence[int],
    most: int,
) -> _Cut:
    """All rows, which ascend, by bands that nothing is stored in."""
    if len(index) <= most and not len(stored):
        return _Cut([slice(0, len(index))] if len(index) else [], _NONE)
    return _cut_bands(
        index, stored, grid, axes, lambda rows, there: rows <= most and not len(there)
    )


@dataclass(frozen=True, slots=True)
class _Band:
    bounds: Bounds
    rows: slice | Ints  # of the index, ascending
    stored: Ints

    def __len__(self) -> int:
        rows = self.rows
        return rows.stop - rows.start if isinstance(rows, slice) else len(rows)


def _cut_bands(
    index: npt.NDArray[np.uint32],
    stored: Stored,
    grid: tuple[int, ...],
    axes: Sequence[int],
    is_whole: Callable[[int, Ints], bool],
) -> _Cut:
    """Bands with rows in them, cut until they are whole, or a single chunk."""
    rewrite: set[int] = set()
    bands = []
    whole = [(0, 1 << max(0, count - 1).bit_length()) for count in grid]
    todo = [_Band(whole, slice(0, len(index)), np.arange(len(stored)))]
    while todo:
        band = todo.pop()
        if not len(band):
            continue
        wide = [axis for axis in axes if band.bounds[axis][1] - band.bounds[axis][0] > 1]
        if not wide or is_whole(len(band), band.stored):
            bands.append(band.rows)
            rewrite.update(band.stored.tolist())
        else:
            axis = min(wide, key=lambda axis: _cost(band, axis, stored))  # of equals the first
            todo += _halves(band, axis, index, stored, rewrite)
    return _Cut(bands[::-1], np.array(sorted(rewrite), dtype=np.int64))


def _cost(band: _Band, axis: int, stored: Stored) -> int:
    """References in manifests on both sides of a cut."""
    if not len(band.stored):
        return 0
    middle = sum(band.bounds[axis]) // 2
    below = stored.stop[band.stored, axis] <= middle
    above = stored.start[band.stored, axis] >= middle
    return int(stored.counts[band.stored[~(below | above)]].sum())


def _halves(
    band: _Band,
    axis: int,
    index: npt.NDArray[np.uint32],
    stored: Stored,
    rewrite: set[int],
) -> Iterator[_Band]:
    """Two bands; manifests that extend over both are rewritten."""
    low, high = band.bounds[axis]
    middle = (low + high) // 2
    below = stored.stop[band.stored, axis] <= middle
    above = stored.start[band.stored, axis] >= middle
    rewrite.update(band.stored[~(below | above)].tolist())
    first, second = _split_rows(band, axis, middle, index)
    before, after = band.bounds[:axis], band.bounds[axis + 1 :]
    yield _Band([*before, (low, middle), *after], first, band.stored[below])
    yield _Band([*before, (middle, high), *after], second, band.stored[above])


def _split_rows(
    band: _Band, axis: int, middle: int, index: npt.NDArray[np.uint32]
) -> tuple[slice | Ints, slice | Ints]:
    """The rows before a position on an axis, and the others."""
    rows = band.rows
    if isinstance(rows, slice) and all(hi - lo == 1 for lo, hi in band.bounds[:axis]):
        # They ascend along this axis.
        column = index[rows, axis]
        cut = rows.start + int(np.searchsorted(column, np.uint32(min(middle, 2**32 - 1))))
        return slice(rows.start, cut), slice(cut, rows.stop)
    listed = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
    is_before = index[listed, axis] < middle
    return listed[is_before], listed[~is_before]


type Boxes = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
"""First and last cell of each box, both inclusive, (k, ndim) each."""


@dataclass(frozen=True, slots=True)
class ManifestPlan:
    keep: tuple[ManifestRef, ...]
    rewrite: tuple[ManifestRef, ...]


def plan_manifests(
    current: Sequence[ManifestRef],
    changed: npt.NDArray[np.uint32],  # (m, ndim) chunk indices
    *,
    grid: tuple[int, ...],
    cell: tuple[int, ...],
) -> ManifestPlan:
    """Plans which manifests of an array whose grid is now `grid` are kept, and which rewritten.

    A manifest is rewritten if it reaches outside the grid, or into a cell that a change or another
    rewritten manifest touches; so the new files' extents cannot overlap those that are kept.
    """
    cells = _cells_of(changed, np.array(cell, dtype=np.int64))
    return _plan(current, (cells, cells), grid, cell)


def plan_manifests_in(
    current: Sequence[ManifestRef], box: Box, *, grid: tuple[int, ...], cell: tuple[int, ...]
) -> ManifestPlan:
    """The same if any chunk of a box may change."""
    if any(low >= high for low, high in zip(box.lo, box.hi, strict=True)):
        nothing = np.zeros((0, len(grid)), dtype=np.uint32)
        return plan_manifests(current, nothing, grid=grid, cell=cell)
    size = np.array(cell, dtype=np.int64)
    first = np.array(box.lo, dtype=np.int64).reshape(1, -1) // size
    last = (np.array(box.hi, dtype=np.int64).reshape(1, -1) - 1) // size
    return _plan(current, (first, last), grid, cell)


def _plan(
    current: Sequence[ManifestRef], touched: Boxes, grid: tuple[int, ...], cell: tuple[int, ...]
) -> ManifestPlan:
    size = np.array(cell, dtype=np.int64)
    extents = [
        ref.extents if len(ref.extents) == len(grid) else _full_extents(grid) for ref in current
    ]
    bounds = np.array(extents, dtype=np.int64).reshape(len(current), len(grid), 2)
    first, last = bounds[:, :, 0] // size, (np.maximum(bounds[:, :, 1], 1) - 1) // size
    rewrite = (bounds[:, :, 1] > np.array(grid, dtype=np.int64)).any(axis=1)
    rewrite |= _overlap_mask((first, last), touched)
    while True:
        grown = rewrite | _overlap_mask((first, last), (first[rewrite], last[rewrite]))
        if (grown == rewrite).all():
            break
        rewrite = grown
    return ManifestPlan(
        keep=tuple(ref for ref, again in zip(current, rewrite, strict=True) if not again),
        rewrite=tuple(ref for ref, again in zip(current, rewrite, strict=True) if again),
    )


def split(refs: ChunkRefs, cell: tuple[int, ...]) -> list[ChunkRefs]:
    """`refs` by the cell they lie in; no empty ones."""
    if len(refs) == 0:
        return []
    box = np.array(refs.bounding_box(), dtype=np.int64).reshape(len(cell), 2)
    size = np.array(cell, dtype=np.int64)
    if (box[:, 0] // size == (box[:, 1] - 1) // size).all():
        return [refs]
    cells = refs.index // size.astype(np.uint32)
    group = SortedKeys.of(distinct(cells)).lookup(cells)
    order = np.argsort(group, kind="stable")
    return [refs.take(rows) for rows in np.split(order, np.flatnonzero(np.diff(group[order])) + 1)]


def _cells_of(index: npt.NDArray[np.uint32], size: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The distinct cells that hold rows of `index`."""
    if len(index) == 0:
        return np.zeros((0, len(size)), dtype=np.int64)
    box = Box.around(index)
    first, last = np.array(box.lo) // size, (np.array(box.hi) - 1) // size
    if (first == last).all():  # the usual case, and no need to look at a million rows
        return first.reshape(1, -1)
    return distinct(index // size.astype(np.uint32)).astype(np.int64)


def _full_extents(grid: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """Extents of a manifest that states none: it may hold any chunk."""
    return tuple((0, count) for count in grid)


def _overlap_mask(boxes: Boxes, others: Boxes) -> npt.NDArray[np.bool_]:
    """True where a box shares a cell with any of `others`."""
    first, last = boxes
    touched = np.zeros(len(first), dtype=np.bool_)
    for other_first, other_last in zip(*others, strict=True):
        touched |= ((first <= other_last) & (last >= other_first)).all(axis=1)
    return touched


_UNSPLIT = 2**32 - 1  # more than there can be chunks
_FEW_CELLS, _MOST_CELLS = 1 << 10, 1 << 16


def is_automatic(config: ManifestSplittingConfig | None) -> bool:
    """True if splitting is not configured: manifests are divided into bands then."""
    return config is None or config.split_sizes is None


def cell_sizes(config: ManifestSplittingConfig | None, node: Node) -> tuple[int, ...]:
    """Chunks along each axis that one manifest may cover."""
    if node.array is None:
        return ()
    if is_automatic(config):
        return usual_cells(node.array.num_chunks)
    names = node.array.dimension_names or (None,) * len(node.array.shape)
    rules = [] if config is None else list(_rules_for(config, node))
    sizes = []
    for axis, name in enumerate(names):
        fitting = (size for condition, size in rules if _speaks_of(condition, axis, name))
        sizes.append(max(1, next(fitting, _UNSPLIT)))
    return tuple(sizes)


def usual_cells(grid: tuple[int, ...]) -> tuple[int, ...]:
    """Bands across one axis, for those who write manifests apart from each other.

    As thick as MOST references allow, were all chunks there, in a power of two; and not too many:
    who reads one chunk reads the snapshot, which lists all manifests, and one of these, so that
    both grow with the square root of the array.
    """
    cells, chunks = [_UNSPLIT] * len(grid), math.prod(grid)
    if chunks > MOST:
        most = min(max(_FEW_CELLS, math.isqrt(chunks) // 4), _MOST_CELLS)
        axis = cut_axis(grid, min(-(-chunks // MOST), most))
        dense = 1 << max(0, (MOST * grid[axis] // chunks).bit_length() - 1)
        few = 1 << (grid[axis] // most).bit_length()
        cells[axis] = few if grid[axis] > most * dense else dense
    return tuple(cells)


def _rules_for(
    config: ManifestSplittingConfig, node: Node
) -> Iterator[tuple[ManifestSplitDimCondition, int]]:
    for condition, sizes in config.split_sizes or ():
        if _matches(condition, node):
            yield from sizes


def _matches(condition: ManifestSplitCondition, node: Node) -> bool:
    match condition:
        case SplitOr(conditions):
            return any(_matches(each, node) for each in conditions)
        case SplitAnd(conditions):
            return all(_matches(each, node) for each in conditions)
        case SplitPathMatches(regex):
            return regex_matches(regex, node.path.text)
        case SplitNameMatches(regex):
            return regex_matches(regex, node.path.name)
        case SplitAnyArray():
            return True
        case _:
            return False


def _speaks_of(condition: ManifestSplitDimCondition, axis: int, name: str | None) -> bool:
    match condition:
        case SplitAxis(wanted):
            return wanted == axis
        case SplitDimensionName(regex):
            return name is not None and regex_matches(regex, name)
        case SplitAnyDimension():
            return True
        case _:
            return False


# Manifests of small arrays are mostly their files: a commit of many writes fewer of them. Only what
# is inline is shared. As long as one array uses a manifest, a collection keeps all that it refers
# to, and that must not be chunk objects that another array has replaced.
_SHARED_FROM, _SHARED_BY = 32, 64  # such arrays in a commit, in a manifest
_REF_BYTES = 32  # of a reference beside its chunk
_SMALL_BYTES, _SHARED_BYTES = 1 << 13, 1 << 18  # of an array, of a manifest: chunks and indices


def share_manifests(parts: Sequence[tuple[NodeId, ChunkRefs]]) -> list[list[int]]:
    """Rows of `parts` that go into one manifest; no array twice."""
    sizes = {row: _inline_bytes(part) for row, (_, part) in enumerate(parts)}
    count = Counter(node_id for node_id, _ in parts)
    small = [
        row
        for row, (node_id, _) in enumerate(parts)
        if count[node_id] == 1 and sizes[row] <= _SMALL_BYTES
    ]
    if len(small) < _SHARED_FROM:
        return [[row] for row in range(len(parts))]
    shares: list[list[int]] = [[row] for row in sorted(sizes.keys() - set(small))]
    room = 0.0
    for row in small:
        if sizes[row] > room or len(shares[-1]) == _SHARED_BY:
            shares.append([])
            room = _SHARED_BYTES
        shares[-1].append(row)
        room -= sizes[row]
    return shares


def _inline_bytes(refs: ChunkRefs) -> float:
    """Size of the references in a manifest, about; infinite if not all of them are inline."""
    if len(refs) > _SMALL_BYTES or not (refs.kind == RefKind.INLINE).all():
        return math.inf
    return int(refs.length.sum()) + _REF_BYTES * len(refs)
