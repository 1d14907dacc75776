"""Division of an array's references into manifests by the splitting rules of the configuration.

The chunk grid is cut into cells of `cell` chunks along each dimension; a manifest that frazil
writes holds references of one cell. Only cells in which something changed are rewritten, together
with every manifest that reaches into them (one written under another cell size may cover several).

Rules are tried in order; within a rule and over all of them, the first that matches an axis decides
its size. Axes that no rule matches are not split. Without rules, see bands.py.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

from frazil.format.chunk_index import Box, SortedKeys, distinct
from frazil.format.chunk_refs import ChunkRefs
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
    found,
)
from frazil.format.config import ManifestSplittingConfig
from frazil.format.nodes import ManifestRef, Node
from frazil.repo.bands import MOST, cut_axis

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
    size = np.array(cell, dtype=np.int64)
    extents = [
        ref.extents if len(ref.extents) == len(grid) else _everything(grid) for ref in current
    ]
    bounds = np.array(extents, dtype=np.int64).reshape(len(current), len(grid), 2)
    first, last = bounds[:, :, 0] // size, (np.maximum(bounds[:, :, 1], 1) - 1) // size
    rewrite = (bounds[:, :, 1] > np.array(grid, dtype=np.int64)).any(axis=1)
    cells = _cells_of(changed, size)
    rewrite |= _touching((first, last), (cells, cells))
    while True:
        grown = rewrite | _touching((first, last), (first[rewrite], last[rewrite]))
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


def _everything(grid: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """Extents of a manifest that states none: it may hold any chunk."""
    return tuple((0, count) for count in grid)


def _touching(boxes: Boxes, others: Boxes) -> npt.NDArray[np.bool_]:
    """True where a box shares a cell with any of `others`."""
    first, last = boxes
    touched = np.zeros(len(first), dtype=np.bool_)
    for other_first, other_last in zip(*others, strict=True):
        touched |= ((first <= other_last) & (last >= other_first)).all(axis=1)
    return touched


_UNSPLIT = 2**32 - 1  # more than there can be chunks
_MOST_CELLS = 1024


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

    As thick as MOST references allow, were all chunks there, in a power of two; and not too many.
    """
    cells = [_UNSPLIT] * len(grid)
    if prod(grid) > MOST:
        axis = cut_axis(grid, min(-(-prod(grid) // MOST), _MOST_CELLS))
        others = prod(grid) // grid[axis]
        dense = 1 << max(0, (MOST // others).bit_length() - 1)
        few = 1 << max(0, (grid[axis] // _MOST_CELLS).bit_length())
        cells[axis] = max(dense, few if grid[axis] > _MOST_CELLS * dense else dense)
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
            return found(regex, node.path.text)
        case SplitNameMatches(regex):
            return found(regex, node.path.name)
        case SplitAnyArray():
            return True
        case _:
            return False


def _speaks_of(condition: ManifestSplitDimCondition, axis: int, name: str | None) -> bool:
    match condition:
        case SplitAxis(wanted):
            return wanted == axis
        case SplitDimensionName(regex):
            return name is not None and found(regex, name)
        case SplitAnyDimension():
            return True
        case _:
            return False
