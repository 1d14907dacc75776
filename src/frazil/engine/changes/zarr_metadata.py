"""The parts of a `zarr.json` that the engine needs: the kind of node, and an array's chunk grid.

The bytes themselves are stored and returned as they came.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from frazil.dataclass import dataclass
from frazil.errors import InvalidInputError

_MAX_CHUNKS = 2**32 - 1  # a chunk index is a u32


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    pass


@dataclass(frozen=True, slots=True)
class ArrayMetadata:
    shape: tuple[int, ...]
    num_chunks: tuple[int, ...]
    dimension_names: tuple[str | None, ...] | None


type NodeMetadata = GroupMetadata | ArrayMetadata


def parse_node_metadata(user_data: bytes, *, only_regular: bool = False) -> NodeMetadata:
    """Raises InvalidInputError if this is not a group or an array with a chunk grid.

    Version 1 of the format has only regular grids.
    """
    try:
        document = json.loads(user_data.decode(), parse_constant=_reject_constant)
    except (ValueError, RecursionError) as error:
        raise _metadata_error(f"not JSON: {error}") from error
    if not isinstance(document, dict):
        raise _metadata_error(f"expected a JSON object, found {type(document).__name__}")
    match document.get("node_type"):
        case "group":
            return GroupMetadata()
        case "array":
            return _parse_array(document, only_regular=only_regular)
        case other:
            raise _metadata_error(f"node_type is {other!r}, expected 'array' or 'group'")


def _reject_constant(constant: str) -> None:
    """NaN and infinities are not JSON, and readers that are stricter than Python's stop at them."""
    raise ValueError(f"{constant} is not a value")


def _parse_array(document: Mapping[str, Any], *, only_regular: bool) -> ArrayMetadata:
    shape: Any = document.get("shape")
    if not _is_lengths(shape, least=0):
        raise _metadata_error(f"shape is {shape!r}, expected a list of non-negative integers")
    grid: Any = document.get("chunk_grid")
    num_chunks = _count_chunks(tuple(shape), grid)
    if only_regular and grid["name"] != "regular":
        raise InvalidInputError(
            "error decoding Zarr chunk grid metadata: Non-regular chunk grids are not supported in"
            " icechunk format version 1: use spec_version=2 or higher",
            kind="bad-metadata",
        )
    names: Any = document.get("dimension_names")
    if names is not None and not _is_names(names, len(shape)):
        raise _metadata_error(
            f"dimension_names is {names!r}, expected {len(shape)} strings or nulls"
        )
    return ArrayMetadata(
        shape=tuple(shape),
        num_chunks=num_chunks,
        dimension_names=None if names is None else tuple(name or None for name in names),
    )


def _count_chunks(shape: tuple[int, ...], grid: Any) -> tuple[int, ...]:
    match grid:
        case {"name": "regular", "configuration": {"chunk_shape": sizes}}:
            if not _is_lengths(sizes, least=1) or len(sizes) != len(shape):
                raise _metadata_error(
                    f"chunk_shape is {sizes!r}, expected {len(shape)} positive integers"
                )
            counts = tuple(-(-length // size) for length, size in zip(shape, sizes, strict=True))
        case {"name": "rectilinear", "configuration": {"chunk_shapes": edges}}:
            if not isinstance(edges, list) or len(edges) != len(shape):
                raise _metadata_error(f"chunk_shapes is {edges!r}, expected {len(shape)} lists")
            counts = tuple(
                _count_edges(one, length) for one, length in zip(edges, shape, strict=True)
            )
        case _:
            raise _metadata_error(f"chunk_grid is {grid!r}, expected a regular or rectilinear grid")
    if any(count > _MAX_CHUNKS for count in counts):
        raise _metadata_error(
            f"{max(counts)} chunks along one dimension, at most {_MAX_CHUNKS} are possible"
        )
    return counts


def _count_edges(edges: Any, length: int) -> int:
    """Chunks along one dimension of a rectilinear grid: sizes, or [size, count] pairs."""
    if isinstance(edges, int) and edges >= 1:
        return -(-length // edges)
    if not isinstance(edges, list):
        raise _metadata_error(f"chunk sizes are {edges!r}, expected a list")
    count = 0
    for edge in edges:
        match edge:
            case int() if edge >= 1:
                count += 1
            case [int() as size, int() as repeats] if size >= 1 and repeats >= 0:
                count += repeats
            case _:
                raise _metadata_error(
                    f"chunk size is {edge!r}, expected a size or a [size, count] pair"
                )
    return count


def _is_lengths(value: Any, *, least: int) -> bool:
    return isinstance(value, list) and all(
        isinstance(length, int) and not isinstance(length, bool) and least <= length < 2**64
        for length in value
    )


def _is_names(value: Any, count: int) -> bool:
    return (
        isinstance(value, Sequence)
        and len(value) == count
        and all(name is None or isinstance(name, str) for name in value)
    )


def _metadata_error(reason: str) -> InvalidInputError:
    return InvalidInputError(f"bad metadata: {reason}", kind="bad-metadata")
