"""Blocks of several arrays that fit together, by the names of their dimensions."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import lcm, prod
from typing import Any

import numpy as np
import numpy.typing as npt

from frazil.errors import InvalidInputError
from frazil.spark.description import ArrayDescription
from frazil.spark.pipelines.boxes import Cut, choose_box
from frazil.spark.pipelines.halo import Boundary, check_boundary
from frazil.spark.pipelines.relayout import WHOLE, is_whole
from frazil.zarrstore.documents import array_document

type Halo = Mapping[str, int | tuple[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """An array to be made. `dims` are by default those of the blocks; `sizes` of new ones."""

    dtype: npt.DTypeLike
    dims: tuple[str, ...] | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)
    chunks: Mapping[str, int] = field(default_factory=dict)
    attrs: Mapping[str, Any] = field(default_factory=dict)
    fill_value: object = None  # NaN or 0
    codecs: Sequence[Mapping[str, Any]] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Where a block is: `region` without its halo, by dimension; `halo` as it really is there."""

    number: int
    region: Mapping[str, slice]
    halo: Mapping[str, tuple[int, int]]


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    path: str
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    document: bytes


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class BlocksPlan:
    inputs: tuple[ArrayDescription, ...]
    targets: tuple[Target, ...]
    dims: tuple[str, ...]
    cut: Cut  # of these dims
    halo: Mapping[str, tuple[int, int]]
    boundary: Mapping[str, Boundary]

    @property
    def size_bytes(self) -> int:
        return sum(prod(one.shape) * one.dtype.itemsize for one in self.targets)


def plan_blocks(
    inputs: Sequence[ArrayDescription],
    outputs: Mapping[str, Output],
    *,
    blocks: Mapping[str, int],
    halo: Halo,
    boundary: Boundary | Mapping[str, Boundary],
    max_bytes: int,
) -> BlocksPlan:
    """Raises InvalidInputError if arrays do not fit together, or what is named does not exist."""
    if not inputs or not outputs:
        raise InvalidInputError("map_blocks needs at least one input and one output")
    sizes = _sizes(inputs)
    edges = boundary if isinstance(boundary, Mapping) else dict.fromkeys(sizes, boundary)
    for what, named in (("blocks", blocks), ("halo", halo), ("boundary", edges)):
        unknown = sorted(set(named) - set(sizes))
        if unknown:
            raise InvalidInputError(f"{what} name {unknown}, the dimensions are {list(sizes)}")
    chunks = _input_chunks(inputs)
    made = {path: _target(path, one, sizes, chunks) for path, one in outputs.items()}
    units = {dim: _unit(dim, made.values(), chunks) for dim in sizes}
    whole = {dim for dim in sizes for target, _ in made.values() if dim not in target.dims}
    box = _box(inputs, sizes, units, whole, blocks, max_bytes=max_bytes)
    return BlocksPlan(
        inputs=tuple(inputs),
        targets=tuple(target for target, _ in made.values()),
        dims=tuple(sizes),
        cut=Cut(tuple(sizes.values()), box),
        halo={dim: _pair(dim, width) for dim, width in halo.items()},
        boundary={dim: check_boundary(edge) for dim, edge in edges.items()},
    )


def _sizes(inputs: Sequence[ArrayDescription]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for one in inputs:
        for dim, size in zip(one.dims, one.shape, strict=True):
            if sizes.setdefault(dim, size) != size:
                raise InvalidInputError(
                    f"`{one.path}` has {size} along {dim!r}, another input has {sizes[dim]}"
                )
    return sizes


def _input_chunks(inputs: Sequence[ArrayDescription]) -> dict[str, int]:
    """Of the first input that has the dimension."""
    chunks: dict[str, int] = {}
    for one in inputs:
        for dim, chunk, size in zip(one.dims, one.chunks, one.shape, strict=True):
            chunks.setdefault(dim, max(1, min(chunk, size)))
    return chunks


def _target(
    path: str, output: Output, sizes: Mapping[str, int], chunks: Mapping[str, int]
) -> tuple[Target, dict[str, int]]:
    """The array, and its chunks by dimension."""
    dims = tuple(sizes) if output.dims is None else tuple(output.dims)
    known = {**output.sizes, **sizes}  # those of the inputs win, and must be equal
    unknown = [dim for dim in dims if dim not in known]
    if unknown:
        raise InvalidInputError(f"output `{path}`: give sizes of the new dimensions {unknown}")
    _require_output(path, output, dims, sizes)
    shape = tuple(known[dim] for dim in dims)
    usual = {dim: chunks.get(dim, max(1, known[dim])) for dim in dims}
    wanted = {**usual, **output.chunks}
    lengths = {
        dim: max(1, known[dim]) if wanted[dim] == WHOLE else wanted[dim] for dim in dims
    }  # fmt: skip
    dtype = np.dtype(output.dtype)
    fill = output.fill_value
    if fill is None:
        fill = np.full((), np.nan if dtype.kind == "f" else 0, dtype)[()]
    document = array_document(
        shape=shape,
        chunks=tuple(lengths.values()),
        dtype=dtype.name,
        fill_value=fill,
        dims=dims,
        attributes=output.attrs,
        codecs=output.codecs,
    )
    return Target(path, dims, shape, dtype, document), lengths


def _require_output(
    path: str, output: Output, dims: tuple[str, ...], sizes: Mapping[str, int]
) -> None:
    if len(set(dims)) != len(dims):
        raise InvalidInputError(f"output `{path}` has a dimension twice: {', '.join(dims)}")
    unknown = sorted(set(output.chunks) - set(dims))
    if unknown:
        raise InvalidInputError(f"output `{path}`: chunks name {unknown}, it has {list(dims)}")
    for what, given, least in (("sizes", output.sizes, 0), ("chunks", output.chunks, 1)):
        for dim, length in given.items():
            if not is_whole(length) or (length < least and (what, length) != ("chunks", WHOLE)):
                raise InvalidInputError(
                    f"output `{path}`: {what} of {length!r} along {dim!r}, expected {least} or more"
                )
    for dim in output.sizes.keys() & sizes.keys():
        if output.sizes[dim] != sizes[dim]:
            raise InvalidInputError(
                f"output `{path}`: {dim!r} is of size {sizes[dim]} in the inputs,"
                f" not {output.sizes[dim]}"
            )


def _unit(
    dim: str, made: Iterable[tuple[Target, dict[str, int]]], chunks: Mapping[str, int]
) -> int:
    """Blocks along `dim` are of so many elements, or several times that."""
    lengths = [found[dim] for _, found in made if dim in found]
    return lcm(*lengths) if lengths else chunks[dim]


def _box(
    inputs: Sequence[ArrayDescription],
    sizes: Mapping[str, int],
    units: Mapping[str, int],
    whole: set[str],
    blocks: Mapping[str, int],
    *,
    max_bytes: int,
) -> tuple[int, ...]:
    fixed = {dim: sizes[dim] for dim in whole}
    for dim, length in blocks.items():
        if not is_whole(length):
            raise InvalidInputError(f"blocks of {length!r} along {dim!r}: expected a whole number")
        given = sizes[dim] if length == WHOLE else length
        if dim in whole and given < sizes[dim]:
            raise InvalidInputError(f"an output lacks {dim!r}, so blocks must be whole along it")
        if given < 1 or (given % units[dim] and given < sizes[dim]):
            raise InvalidInputError(
                f"blocks of {length} along {dim!r} are not whole chunks of {units[dim]}"
            )
        fixed[dim] = given
    chunks = _input_chunks(inputs)
    unit = [max(1, fixed.get(dim, units[dim])) for dim in sizes]
    goal = [u if dim in fixed else max(u, chunks[dim]) for dim, u in zip(sizes, unit, strict=True)]
    if blocks:  # the caller decides: only what fits to the chunks is added
        return tuple(unit)
    itemsize = sum(max(1, one.dtype.itemsize) for one in inputs) + 8
    return choose_box(tuple(sizes.values()), unit, goal, itemsize=itemsize, max_bytes=max_bytes)


def _pair(dim: str, width: int | tuple[int, int]) -> tuple[int, int]:
    before, after = (width, width) if isinstance(width, int) else width
    if before < 0 or after < 0:
        raise InvalidInputError(f"halo of {width} along {dim!r}: at least 0")
    return before, after
