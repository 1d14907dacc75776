"""How large a cell of an array's chunk grid is, by the rules of the configuration.

Rules are tried in order; within a rule and over all of them, the first that speaks of an axis
decides it. Axes that no rule speaks of are not split. Without rules, see bands.py.
"""

from collections.abc import Iterator
from math import prod

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
from frazil.format.nodes import Node
from frazil.repo.bands import MOST, cut_axis

_UNSPLIT = 2**32 - 1  # more than there can be chunks
_MOST_CELLS = 1024


def is_automatic(config: ManifestSplittingConfig | None) -> bool:
    """Whether there are no rules, not even that there be none: manifests are cut in bands then."""
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
