"""Preloading: the manifests that a new session fetches in advance, by the configuration's rules.

By default those of coordinates: they are small, and most programs begin by reading them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

import numpy as np

from frazil.format.conditions import (
    Bound,
    ManifestPreloadCondition,
    PreloadAnd,
    PreloadFalse,
    PreloadNameMatches,
    PreloadNumRefs,
    PreloadOr,
    PreloadPathMatches,
    PreloadTrue,
    found,
)
from frazil.format.config import ManifestPreloadConfig
from frazil.format.nodes import Node, Nodes
from frazil.format.schemas import NODE_ARRAY
from frazil.format.snapshot import Snapshot
from frazil.ids import ManifestId

# Names that coordinates have by the conventions for climate and forecast data, as in the reference.
_COORDINATES = (
    r"^\bt\b$|^(time|min|hour|day|week|month|year)[0-9]*$",
    r"^(z|nav_lev|gdep|lv_|[o]*lev|bottom_top|sigma|h(ei)?ght|altitude|depth|isobaric|pres|isotherm)[a-z_]*[0-9]*$",
    r"^(y|j|nlat|rlat|nj)$",
    r"^y?(nav_lat|lat|gphi)[a-z0-9]*$",
    r"^x?(nav_lon|lon|glam)[a-z0-9]*$",
    r"^(x|i|nlon|rlon|ni)$",
)
DEFAULT_CONDITION: ManifestPreloadCondition = PreloadAnd(
    (
        PreloadOr(tuple(map(PreloadNameMatches, _COORDINATES))),
        PreloadNumRefs(None, Bound(1000, included=True)),
    )
)


@dataclass(frozen=True, slots=True)
class PreloadRules:
    condition: ManifestPreloadCondition = DEFAULT_CONDITION
    max_total_refs: int = 10_000
    max_arrays: int = 50  # that are looked at

    @classmethod
    def of(cls, given: ManifestPreloadConfig | None) -> "PreloadRules":
        rules = cls()
        if given is None:
            return rules
        total, arrays = given.max_total_refs, given.max_arrays_to_scan
        return cls(
            given.preload_if or rules.condition,
            rules.max_total_refs if total is None else total,
            rules.max_arrays if arrays is None else arrays,
        )

    @property
    def are_void(self) -> bool:
        """True if these rules choose no manifest of any snapshot."""
        nothing = self.max_total_refs == 0 or self.max_arrays == 0
        return nothing or isinstance(self.condition, PreloadFalse)


@dataclass(frozen=True, slots=True)
class PreloadPlan:
    rules: PreloadRules
    manifests: tuple[ManifestId, ...]


def plan_preload(snapshot: Snapshot, rules: PreloadRules) -> PreloadPlan:
    """Manifests to fetch, each once, in the order of the paths of their arrays.

    Of the first arrays by path, those that fit; one that would exceed the total is left out, and
    smaller ones after it are not.
    """
    sizes: dict[ManifestId, int] = {}
    chosen: dict[ManifestId, int] = {}
    left = rules.max_total_refs
    for node in _possible_arrays(snapshot.nodes, rules):
        sizes = sizes or {file.id: file.num_refs for file in snapshot.manifest_files}
        for ref in () if node.array is None else node.array.manifests:
            num_refs = sizes.get(ref.id)
            if num_refs is None or ref.id in chosen or num_refs > left:
                continue
            if fits(rules.condition, node.path.text, num_refs):
                chosen[ref.id] = num_refs
                left -= num_refs
    return PreloadPlan(rules, tuple(chosen))


def fits(condition: ManifestPreloadCondition, path: str, num_refs: int | None) -> bool:
    """True if a manifest of an array is to be preloaded.

    With `num_refs` None: True if one of some size might be.
    """
    match condition:
        case PreloadOr(conditions):
            return any(fits(each, path, num_refs) for each in conditions)
        case PreloadAnd(conditions):
            return all(fits(each, path, num_refs) for each in conditions)
        case PreloadPathMatches(regex):
            return found(regex, path)
        case PreloadNameMatches(regex):
            return found(regex, path.rpartition("/")[2])
        case PreloadNumRefs(start, stop):
            return num_refs is None or (_above(start, num_refs) and _below(stop, num_refs))
        case _:
            return isinstance(condition, PreloadTrue)


def _possible_arrays(nodes: Nodes, rules: PreloadRules) -> Iterator[Node]:
    """Only these are decoded: a hierarchy may have thousands of others."""
    if len(nodes) <= rules.max_arrays:  # so it does not matter which of them are arrays
        may_fit = (_may_fit(rules.condition, path) for path in nodes.path_texts())
        if not any(may_fit):
            return
    arrays = np.flatnonzero(nodes.table.union("node_data").types == NODE_ARRAY)
    for row in islice(arrays.tolist(), rules.max_arrays):
        if _may_fit(rules.condition, nodes.path_text(row)):
            yield nodes.node(row)


@lru_cache(maxsize=4096)  # sessions of one repository ask about the same arrays again and again
def _may_fit(condition: ManifestPreloadCondition, path: str) -> bool:
    return fits(condition, path, None)


def _above(bound: Bound | None, number: int) -> bool:
    return bound is None or number > bound.value or (bound.included and number == bound.value)


def _below(bound: Bound | None, number: int) -> bool:
    return bound is None or number < bound.value or (bound.included and number == bound.value)
