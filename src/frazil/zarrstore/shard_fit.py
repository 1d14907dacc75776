"""Inner chunks that do not fit into their shard once it is transposed. Pure, on `zarr.json`."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from frazil.errors import InvalidInputError


def find_shard_misfit(document: Mapping[str, Any]) -> str | None:
    """Describes inner chunks that do not fit into their shard, if the array has such.

    Zarr compares them with the shard as it is before it is transposed. If they fit only then,
    values are lost: there is no place in the shard for some of the inner chunks.
    """
    match document.get("chunk_grid"):
        case {"name": "regular", "configuration": {"chunk_shape": [*sizes]}}:
            lengths = [[size] for size in sizes]
        case {"name": "rectilinear", "configuration": {"chunk_shapes": [*edges]}}:
            lengths = [_edge_lengths(each) for each in edges]
        case _:
            return None
    if not all(_are_sizes(each) for each in lengths):
        return None  # refused elsewhere
    return _misfit(lengths, document.get("codecs"))


def _edge_lengths(edges: Any) -> list[Any]:
    """Sizes of chunks along one dimension: an integer, a list of them, or of [size, count]."""
    listed = edges if isinstance(edges, list | tuple) else [edges]
    return [edge[0] if isinstance(edge, list | tuple) and edge else edge for edge in listed]


def _are_sizes(values: Sequence[Any]) -> bool:
    return all(isinstance(value, int) and value > 0 for value in values)


def _misfit(lengths: list[list[int]], codecs: Any) -> str | None:
    """`lengths` are those that a chunk can have along each axis."""
    for codec in codecs if isinstance(codecs, list | tuple) else ():
        match codec:
            case {"name": "transpose", "configuration": {"order": [*order]}}:
                if {*map(str, order)} != {*map(str, range(len(lengths)))}:
                    return None  # zarr refuses it
                lengths = [lengths[int(axis)] for axis in order]
            case {"name": "sharding_indexed", "configuration": {"chunk_shape": [*inner]}}:
                if len(inner) != len(lengths) or not _are_sizes(inner):
                    return None  # zarr refuses it
                for size, outer in zip(inner, lengths, strict=True):
                    if any(length % size for length in outer):
                        shard = tuple(min(each, default=0) for each in lengths)
                        return (
                            f"inner chunks of shape {tuple(inner)} do not fit into the shard, which"
                            f" is {shard} once it is transposed: values would be lost"
                        )
                return _misfit([[size] for size in inner], codec["configuration"].get("codecs"))
            case {"name": "numcodecs.packbits"}:
                return None  # gives the values another shape
    return None


def require_fitting_shards(
    document: bytes, where: str, find_old: Callable[[], bytes | None] = lambda: None
) -> None:
    """Raises InvalidInputError for a new array whose shards would lose values.

    An array that is there already, which `find_old` finds, may keep such codecs: its other
    metadata can be changed.
    """
    problem = _misfit_in(document)
    if problem is None:
        return
    old = find_old()
    if old is None or _misfit_in(old) is None:
        raise InvalidInputError(f"`{where}`: {problem}", kind="bad-metadata")


def _misfit_in(document: bytes) -> str | None:
    if b'"sharding_indexed"' not in document or b'"transpose"' not in document:
        return None
    try:
        parsed = json.loads(document)
    except ValueError:
        return None  # refused elsewhere
    return find_shard_misfit(parsed) if isinstance(parsed, dict) else None
