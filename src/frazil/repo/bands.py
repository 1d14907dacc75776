"""Division of an array's references into manifests where no splitting is configured.

The chunk grid is cut into bands across an axis, in halves at powers of two, as often as it takes
until none holds more than MOST references; what is one chunk thick and still holds more is cut
across another axis. So where to cut follows from what is there: few references are one manifest,
however large the grid, and many are manifests of some size. Where manifests are, cuts are made
between them: so they stay where they are while the array grows, and what is appended touches the
last band alone. What has to be cut first is cut across the axis that it grows along, or the first
one that is long enough.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from frazil.format.chunk_index import Box, distinct
from frazil.format.chunk_refs import ChunkRefs
from frazil.format.nodes import ManifestRef

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
    axes = _preferred(changed, stored, grid, most)
    rewrite = _reached(changed, stored, grid, axes, most)
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


def _preferred(
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


def _reached(
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

    cut = _cut(distinct(changed), stored, grid, axes, is_whole)
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
    return _cut(index, stored, grid, axes, lambda rows, there: rows <= most and not len(there))


@dataclass(frozen=True, slots=True)
class _Band:
    bounds: Bounds
    rows: slice | Ints  # of the index, ascending
    stored: Ints

    def __len__(self) -> int:
        rows = self.rows
        return rows.stop - rows.start if isinstance(rows, slice) else len(rows)


def _cut(
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
    first, second = _parted(band, axis, middle, index)
    before, after = band.bounds[:axis], band.bounds[axis + 1 :]
    yield _Band([*before, (low, middle), *after], first, band.stored[below])
    yield _Band([*before, (middle, high), *after], second, band.stored[above])


def _parted(
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
