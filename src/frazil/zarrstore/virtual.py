"""Virtual references as callers give them, turned into columns.

A virtual reference says that a chunk is a part of a file outside of the repository. Where that
may be is said by containers; references to places outside of them are left out if they are to be
checked.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from math import prod
from operator import index as as_int

import numpy as np
import numpy.typing as npt

from frazil.clock import from_datetime
from frazil.errors import (
    InvalidInputError,
    require_type,
)
from frazil.flatbuf.columns import StringColumn
from frazil.format import texts
from frazil.format.chunk_refs import ChunkRefs
from frazil.format.containers import Containers
from frazil.format.location_table import regular_column
from frazil.format.payloads import Checksum, ETag, LastModified, Payload, Virtual
from frazil.format.urls import regular
from frazil.zarrstore.location_columns import Locations, column_of, numbers_of

_MAX_U32 = 2**32 - 1
_MAX_U64 = 2**64 - 1


@dataclass(frozen=True, slots=True)
class VirtualChunkSpec:
    """One chunk of an array and the part of a file that holds it."""

    index: Sequence[int]
    location: str
    offset: int
    length: int
    etag_checksum: str | None = None
    last_updated_at_checksum: datetime | None = None


def parse_checksum(checksum: str | datetime | None) -> Checksum | None:
    """Text is an etag; a time with a zone is the last modification, counted in whole seconds."""
    match checksum:
        case None:
            return None
        case str():
            return ETag(checksum)
        case datetime():
            seconds = from_datetime(checksum) // 1_000_000
            if not 0 < seconds <= _MAX_U32:
                raise InvalidInputError(
                    f"{checksum.isoformat()} cannot be stored as a time of last modification",
                    kind="invalid-virtual-ref",
                )
            return LastModified(seconds)
        case _:
            raise TypeError(f"{type(checksum).__name__!r} object is neither a str nor a datetime")


@dataclass(frozen=True, slots=True, eq=False)
class CheckedRefs:
    """References that may be set, and the indices of those that no container covers."""

    refs: ChunkRefs
    refused: list[tuple[int, ...]]


def virtual_payload(
    location: str,
    *,
    offset: int,
    length: int,
    checksum: str | datetime | None,
    containers: Containers | None = None,
) -> Virtual:
    """Raises InvalidInputError also if there are containers, and none of them covers it."""
    require_type(location, str)
    parsed = parse_checksum(checksum)
    place = regular(location)
    if containers is not None:
        containers.require_covered(place)
    offset, length = as_int(offset), as_int(length)
    if not (0 <= offset <= _MAX_U64 and 0 <= length <= _MAX_U64):
        raise OverflowError(f"offset {offset} or length {length} is not an unsigned 64 bit integer")
    if not length:
        raise _empty_chunk()
    return Virtual(place, offset, length, parsed)


def refs_of_specs(
    specs: Sequence[VirtualChunkSpec], *, ndim: int, containers: Containers | None = None
) -> CheckedRefs:
    """References for an array of `ndim` dimensions; of equal indices the last wins."""
    for spec in specs:
        require_type(spec, VirtualChunkSpec)
    places = regular_column(texts.coded([spec.location for spec in specs]))
    refused: list[tuple[int, ...]] = []
    if containers is not None:
        good = containers.covered(places.strings)[places.codes].tolist()
        refused = [tuple(spec.index) for spec, fine in zip(specs, good, strict=True) if not fine]
        specs = [spec for spec, fine in zip(specs, good, strict=True) if fine]
    payloads: list[Payload] = [_payload_of(spec, ndim) for spec in specs]
    index = np.array([spec.index for spec in specs], dtype=np.uint32).reshape(len(specs), ndim)
    return CheckedRefs(ChunkRefs.from_payloads(index, payloads), refused)


def _payload_of(spec: VirtualChunkSpec, ndim: int) -> Virtual:
    if len(spec.index) != ndim or not all(0 <= place <= _MAX_U32 for place in spec.index):
        raise InvalidInputError(
            f"invalid chunk index {list(spec.index)} for an array of {ndim} dimensions",
            kind="invalid-chunk-index",
        )
    etag, modified = spec.etag_checksum, spec.last_updated_at_checksum
    return virtual_payload(
        spec.location,
        offset=spec.offset,
        length=spec.length,
        checksum=modified if etag is None else etag,
    )


def refs_of_grid(
    grid_shape: Sequence[int],
    locations: Locations,
    offsets: npt.NDArray[np.uint64],  # (n,)
    lengths: npt.NDArray[np.uint64],  # (n,)
    *,
    first: Sequence[int] | None,
    checksum: str | datetime | None,
    containers: Containers | None = None,
) -> CheckedRefs:
    """One reference per cell of a block of chunks, last dimension fastest.

    The block begins at chunk `first`; an empty location leaves its cell out.
    """
    places, offsets, lengths = column_of(locations), numbers_of(offsets), numbers_of(lengths)
    _require_alike(grid_shape, places, offsets, lengths)
    index = _block(_start(grid_shape, first), grid_shape)
    if not _are_all_given(places):
        kept = np.flatnonzero(places.lengths() > 0)
        places, index = places.take(kept), index[kept]
        offsets, lengths = offsets[kept], lengths[kept]
    places = regular_column(places.pruned())
    refused: list[tuple[int, ...]] = []
    if containers is not None and len(places):
        covered = containers.covered(places.strings)[places.codes]
        if not covered.all():
            refused = [tuple(cell) for cell in index[~covered].tolist()]
            kept = np.flatnonzero(covered)
            places, index = places.take(kept), index[kept]
            offsets, lengths = offsets[kept], lengths[kept]
    if not lengths.all():
        raise _empty_chunk()
    return CheckedRefs(_refs(index, places, offsets, lengths, parse_checksum(checksum)), refused)


def _are_all_given(places: StringColumn) -> bool:
    """Whether every row has a location; for most columns the table of them tells."""
    if len(places) and int(places.codes.min()) >= 0 and bool((places.strings.length > 0).all()):
        return True
    return bool((places.lengths() > 0).all())


def _refs(
    index: npt.NDArray[np.uint32],
    places: StringColumn,
    offsets: npt.NDArray[np.uint64],
    lengths: npt.NDArray[np.uint64],
    checksum: Checksum | None,
) -> ChunkRefs:
    match checksum:
        case ETag(value):
            # One string, cited by all rows.
            etags = StringColumn(np.zeros(len(places), dtype=np.int64), texts.table([value]))
            return ChunkRefs.virtual(index, places, offsets, lengths, etag=etags)
        case LastModified(seconds):
            return ChunkRefs.virtual(index, places, offsets, lengths, last_modified=seconds)
        case None:
            return ChunkRefs.virtual(index, places, offsets, lengths)


def _start(grid_shape: Sequence[int], first: Sequence[int] | None) -> tuple[int, ...]:
    start = (0,) * len(grid_shape) if first is None else tuple(first)
    if len(start) != len(grid_shape):
        raise ValueError(
            f"arr_offset length ({len(start)}) != chunk_grid_shape length ({len(grid_shape)})"
        )
    if any(
        not 0 <= at <= at + size <= _MAX_U32 for at, size in zip(start, grid_shape, strict=True)
    ):
        raise InvalidInputError(
            f"a block of {tuple(grid_shape)} chunks from {start} on does not fit into an array",
            kind="invalid-chunk-index",
        )
    return start


def _empty_chunk() -> InvalidInputError:
    return InvalidInputError(
        "zero-length chunk: no valid chunk is ever zero bytes long; to say that a chunk is not"
        " stored at all, delete it",
        kind="zero-length-chunk",
    )


def _block(start: Sequence[int], shape: Sequence[int]) -> npt.NDArray[np.uint32]:
    """Index of each cell of a block, (n, ndim), last dimension fastest."""
    index = np.empty((*shape, len(shape)), dtype=np.uint32)
    for axis, (at, size) in enumerate(zip(start, shape, strict=True)):
        places = np.arange(at, at + size, dtype=np.uint32)
        index[..., axis] = places.reshape((-1,) + (1,) * (len(shape) - axis - 1))
    return index.reshape(prod(shape), len(shape))


def _require_alike(
    grid_shape: Sequence[int],
    locations: StringColumn,
    offsets: npt.NDArray[np.uint64],
    lengths: npt.NDArray[np.uint64],
) -> None:
    for name, column in (("offsets", offsets), ("lengths", lengths)):
        if column.dtype != np.uint64 or column.ndim != 1:
            raise TypeError(
                f"{name} must be a 1-dimensional array of uint64,"
                f" got {column.ndim} dimensions of {column.dtype}"
            )
    if not len(locations) == len(offsets) == len(lengths):
        raise ValueError("locations, offsets, and lengths must have the same length")
    if prod(grid_shape) != len(locations):
        raise ValueError(
            f"product of chunk_grid_shape ({prod(grid_shape)}) != array length ({len(locations)})"
        )
