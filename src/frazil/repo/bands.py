"""Which manifest files an array's references go to where nobody said how to split them.

The chunk grid is cut into bands across its longest axis, in halves at powers of two, as often as it
takes until none holds more than MOST references; what is one chunk thick and still holds more is
cut across the next longest axis. So where to cut follows from what is there: few references are one
manifest, however large the grid, and many are manifests of some size. The cuts stay where they are
while the array grows, so that what is appended touches the last band alone.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from frazil.format.chunk_refs import ChunkRefs
from frazil.format.index_keys import distinct
from frazil.format.snapshot import ManifestRef

MOST: Final = 1 << 16  # references in a manifest: a megabyte or less, compressed

_FEW = 8  # manifests that are joined at a time: what was cut finer, others wanted so
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
        """Those that reach out of the grid."""
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
    """What becomes of the manifests of an array whose grid is now `grid`; None if nothing.

    `merged` gives all that is set of the changed chunks and, apart from these, in some manifests.
    """
    rewrite = _reached(changed, stored, grid, most)
    if not len(rewrite) and not len(changed):
        return None
    rewritten: list[ManifestRef] = []
    while True:
        rewritten += stored.take(rewrite).refs
        stored = stored.take(np.setdiff1d(np.arange(len(stored)), rewrite))
        refs = merged(rewritten)
        if not rewritten and not len(refs):
            return None
        found = _partition(refs.index, stored, grid, most)
        rewrite = found.rewrite
        if not len(rewrite):  # as a rule, after the first time
            return Bands(stored.refs, [refs.take(rows) for rows in found.rows])


@dataclass(frozen=True, slots=True, eq=False)
class _Cut:
    rows: list[slice | Ints]  # of each band
    rewrite: Ints  # stored manifests in these bands, or reaching over a cut


def _reached(
    changed: npt.NDArray[np.uint32], stored: Stored, grid: tuple[int, ...], most: int
) -> Ints:
    """Those that reach out of the grid, and those of changed bands.

    A band with few references is to become one manifest.
    """
    outside = stored.outside(grid)
    if not len(changed) or not len(stored):
        return outside
    if len(stored) <= _FEW and len(changed) + int(stored.counts.sum()) <= most:
        return np.arange(len(stored))

    def is_whole(rows: int, there: Ints) -> bool:
        return len(there) <= _FEW and rows + int(stored.counts[there].sum()) <= most

    found: Ints = np.union1d(outside, _cut(distinct(changed), stored, grid, is_whole).rewrite)
    return found


def _partition(
    index: npt.NDArray[np.uint32], stored: Stored, grid: tuple[int, ...], most: int
) -> _Cut:
    """All rows, which ascend, by bands that nothing is stored in."""
    if len(index) <= most and not len(stored):
        return _Cut([slice(0, len(index))] if len(index) else [], _NONE)
    return _cut(index, stored, grid, lambda rows, there: rows <= most and not len(there))


@dataclass(frozen=True, slots=True)
class _Band:
    bounds: Bounds
    rows: tuple[int, int]  # of the ordered index
    stored: Ints


def _cut(
    index: npt.NDArray[np.uint32],
    stored: Stored,
    grid: tuple[int, ...],
    is_whole: Callable[[int, Ints], bool],
) -> _Cut:
    """Bands with rows in them, cut until they are whole, or a single chunk."""
    axes = sorted(range(len(grid)), key=lambda axis: -grid[axis])
    ordered = _Ordered.of(index, axes)
    rewrite: set[int] = set()
    bands = []
    whole = [(0, 1 << max(0, count - 1).bit_length()) for count in grid]
    todo = [_Band(whole, (0, len(index)), np.arange(len(stored)))]
    while todo:
        band = todo.pop()
        start, stop = band.rows
        if start == stop:
            continue
        axis = next((a for a in axes if band.bounds[a][1] - band.bounds[a][0] > 1), None)
        if axis is None or is_whole(stop - start, band.stored):
            bands.append(ordered.slice(start, stop))
            rewrite.update(band.stored.tolist())
        else:
            todo += _halves(band, axis, ordered, stored, rewrite)
    return _Cut(bands[::-1], np.array(sorted(rewrite), dtype=np.int64))


def _halves(
    band: _Band, axis: int, ordered: "_Ordered", stored: Stored, rewrite: set[int]
) -> Iterator[_Band]:
    """Two bands; what is stored in both of them is to be written anew."""
    low, high = band.bounds[axis]
    middle = (low + high) // 2
    below = stored.stop[band.stored, axis] <= middle
    above = stored.start[band.stored, axis] >= middle
    rewrite.update(band.stored[~(below | above)].tolist())
    start, stop = band.rows
    cut = ordered.first_from(axis, middle, start, stop)
    before, after = band.bounds[:axis], band.bounds[axis + 1 :]
    yield _Band([*before, (low, middle), *after], (start, cut), band.stored[below])
    yield _Band([*before, (middle, high), *after], (cut, stop), band.stored[above])


@dataclass(frozen=True, slots=True, eq=False)
class _Ordered:
    """Rows of an index, by one axis after the other."""

    index: npt.NDArray[np.uint32]
    order: Ints | None  # None: as they are

    @classmethod
    def of(cls, index: npt.NDArray[np.uint32], axes: Sequence[int]) -> "_Ordered":
        if list(axes) == sorted(axes) or len(index) < 2:
            return cls(index, None)
        order = np.lexsort([index[:, axis] for axis in reversed(axes)]).astype(np.int64)
        return cls(index[order], order)

    def first_from(self, axis: int, position: int, start: int, stop: int) -> int:
        """The first of these rows, which differ in no axis before, at that position or beyond."""
        column = self.index[start:stop, axis]
        return start + int(np.searchsorted(column, np.uint32(min(position, 2**32 - 1))))

    def slice(self, start: int, stop: int) -> slice | Ints:
        """Rows of the index as it was given, ascending."""
        return slice(start, stop) if self.order is None else np.sort(self.order[start:stop])
