"""Chunks of an array put at other places of its grid: references change, bytes stay."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import index as as_int

import numpy as np
import numpy.typing as npt

from frazil.errors import InvalidInputError
from frazil.format.chunk_refs import ChunkRefs
from frazil.format.nodes import Node
from frazil.repo.pending import ChunkChanges

type Rule = Callable[[list[int]], Iterable[int] | None]
"""From the place of a chunk to another, or None."""

_FAR = 2**32  # further than any grid reaches


def require_regular_grid(node: Node) -> None:
    """Raises for other grids: at another index a chunk may have another size."""
    grid = json.loads(node.user_data)["chunk_grid"]["name"]
    if grid != "regular":
        raise InvalidInputError(
            f"cannot move chunks of the array at `{node.path}`: its chunk grid is {grid}, not"
            " regular",
            kind="not-allowed",
        )


def shift_refs(refs: ChunkRefs, offset: Iterable[int], grid: Sequence[int]) -> ChunkChanges:
    """Every chunk moves by `offset`; what leaves the grid is dropped, what is left behind empty."""
    steps = [max(-_FAR, min(_FAR, as_int(step))) for step in offset]
    if len(steps) != len(grid):
        raise InvalidInputError(
            f"chunk_offset has {len(steps)} numbers, the array has {len(grid)} dimensions",
            kind="invalid-chunk-index",
        )
    places = refs.index.astype(np.int64) + np.array(steps, dtype=np.int64)
    bounds = np.array(grid, dtype=np.int64)
    rows = np.flatnonzero(((places >= 0) & (places < bounds)).all(axis=1))
    moved = refs.with_index(places[rows].astype(np.uint32), rows)
    return ChunkChanges(refs=moved, deleted=_left_behind(refs, moved))


def reindex_refs(
    refs: ChunkRefs, forward: Rule, backward: Rule | None, grid: Sequence[int]
) -> ChunkChanges:
    """Moves every chunk to the index that `forward` returns; None leaves it where it is.

    A place that was left and not taken keeps what it had, unless `backward` says None of it, or
    names a place that has no chunk: then it becomes empty. Of two chunks for one place the later
    one, in the order of the grid, gets it.
    """
    found = _answers(forward, refs.index, grid)
    pairs = [(row, place) for row, place in enumerate(found) if place is not None]
    rows = np.array([row for row, _ in pairs], dtype=np.int64)
    moved = refs.with_index(_places([place for _, place in pairs], refs.ndim), rows)
    left = _left_behind(refs, moved)
    if backward is None:
        return ChunkChanges(refs=moved, deleted=left[:0])
    sources = [
        source is not None and _is_inside(source, grid) and refs.find(source) >= 0
        for source in _answers(backward, left, None)
    ]
    empty = ~np.array(sources, dtype=np.bool_)
    return ChunkChanges(refs=moved, deleted=left[empty])


def _answers(
    rule: Rule, index: npt.NDArray[np.uint32], grid: Sequence[int] | None
) -> Iterator[tuple[int, ...] | None]:
    """Result of `rule` for each row, (n, ndim). Without a grid, any result is accepted."""
    for place in index.tolist():
        answer = rule(place)
        if answer is None:
            yield None
            continue
        found = tuple(as_int(position) for position in answer)
        if len(found) != index.shape[1] or (grid is not None and not _is_inside(found, grid)):
            limits = "" if grid is None else f", whose grid is {list(grid)} chunks"
            raise InvalidInputError(
                f"chunk {place} cannot come from or go to {list(found)} in an array of"
                f" {index.shape[1]} dimensions{limits}",
                kind="invalid-chunk-index",
            )
        yield found


def _is_inside(place: tuple[int, ...], grid: Sequence[int]) -> bool:
    return all(0 <= position < count for position, count in zip(place, grid, strict=True))


def _left_behind(old: ChunkRefs, new: ChunkRefs) -> npt.NDArray[np.uint32]:
    """Places, (k, ndim), that `old` has and `new` has not."""
    return old.index[new.lookup(old.index) < 0]


def _places(places: Sequence[tuple[int, ...]], ndim: int) -> npt.NDArray[np.uint32]:
    return np.array(places, dtype=np.uint32).reshape(len(places), ndim)
