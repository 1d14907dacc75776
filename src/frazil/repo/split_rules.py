"""How large a cell of an array's chunk grid is, by the rules of the configuration.

Rules are tried in order; within a rule and over all of them, the first that speaks of an axis
decides it. Axes that no rule speaks of are not split.
"""

from collections.abc import Iterator

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
)
from frazil.format.config import ManifestSplittingConfig
from frazil.format.patterns import found
from frazil.format.snapshot import Node

_UNSPLIT = 2**32 - 1  # more than there can be chunks


def is_automatic(config: ManifestSplittingConfig | None) -> bool:
    """Whether there are no rules, not even that there be none: manifests are cut in bands then."""
    return config is None or config.split_sizes is None


def cell_sizes(config: ManifestSplittingConfig | None, node: Node) -> tuple[int, ...]:
    """Chunks along each axis that one manifest may cover."""
    if node.array is None:
        return ()
    names = node.array.dimension_names or (None,) * len(node.array.shape)
    rules = [] if config is None else list(_rules_for(config, node))
    sizes = []
    for axis, name in enumerate(names):
        fitting = (size for condition, size in rules if _speaks_of(condition, axis, name))
        sizes.append(max(1, next(fitting, _UNSPLIT)))
    return tuple(sizes)


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
