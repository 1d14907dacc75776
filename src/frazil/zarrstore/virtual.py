"""Virtual references as callers give them, turned into columns.

A virtual reference says that a chunk is a part of a file outside of the repository. Whether some
virtual chunk container covers that file is not checked yet: every location is taken.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import repeat
from math import prod
from operator import contains

import numpy as np
import numpy.typing as npt

from frazil.clock import from_datetime
from frazil.errors import InvalidInputError
from frazil.flatbuf.columns import StringColumn
from frazil.format import texts
from frazil.format.chunk_refs import ChunkRefs
from frazil.format.payloads import Checksum, ETag, LastModified, Payload, Virtual

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


def virtual_payload(
    location: str, *, offset: int, length: int, checksum: str | datetime | None
) -> Virtual:
    _require_urls([location])
    if not (0 <= offset <= _MAX_U64 and 0 <= length <= _MAX_U64):
        raise OverflowError(f"offset {offset} or length {length} is not an unsigned 64 bit integer")
    return Virtual(location, offset, length, parse_checksum(checksum))


def refs_of_specs(specs: Sequence[VirtualChunkSpec], *, ndim: int) -> ChunkRefs:
    """References for an array of `ndim` dimensions; of equal indices the last wins."""
    payloads: list[Payload] = []
    for spec in specs:
        if len(spec.index) != ndim or not all(0 <= place <= _MAX_U32 for place in spec.index):
            raise InvalidInputError(
                f"invalid chunk index {list(spec.index)} for an array of {ndim} dimensions",
                kind="invalid-chunk-index",
            )
        etag, modified = spec.etag_checksum, spec.last_updated_at_checksum
        payload = virtual_payload(
            spec.location,
            offset=spec.offset,
            length=spec.length,
            checksum=modified if etag is None else etag,
        )
        payloads.append(payload)
    index = np.array([spec.index for spec in specs], dtype=np.uint32).reshape(len(specs), ndim)
    return ChunkRefs.from_payloads(index, payloads)


def refs_of_grid(
    grid_shape: Sequence[int],
    locations: Sequence[str],
    offsets: npt.NDArray[np.uint64],  # (n,)
    lengths: npt.NDArray[np.uint64],  # (n,)
    *,
    first: Sequence[int] | None,
    checksum: str | datetime | None,
) -> ChunkRefs:
    """One reference per cell of a block of chunks, last dimension fastest.

    The block begins at chunk `first`; an empty location leaves its cell out.
    """
    _require_alike(grid_shape, locations, offsets, lengths)
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
    index = _block(start, grid_shape)
    if "" in locations:
        kept = np.flatnonzero(np.fromiter(map(bool, locations), np.bool_, len(locations)))
        locations = [locations[row] for row in kept.tolist()]
        index, offsets, lengths = index[kept], offsets[kept], lengths[kept]
    _require_urls(locations)
    match parse_checksum(checksum):
        case ETag(value):
            # One string, cited by all rows.
            etags = StringColumn(np.zeros(len(locations), dtype=np.int64), texts.table([value]))
            return ChunkRefs.virtual(index, locations, offsets, lengths, etag=etags)
        case LastModified(seconds):
            return ChunkRefs.virtual(index, locations, offsets, lengths, last_modified=seconds)
        case None:
            return ChunkRefs.virtual(index, locations, offsets, lengths)


def _block(start: Sequence[int], shape: Sequence[int]) -> npt.NDArray[np.uint32]:
    """Index of each cell of a block, (n, ndim), last dimension fastest."""
    index = np.empty((*shape, len(shape)), dtype=np.uint32)
    for axis, (at, size) in enumerate(zip(start, shape, strict=True)):
        places = np.arange(at, at + size, dtype=np.uint32)
        index[..., axis] = places.reshape((-1,) + (1,) * (len(shape) - axis - 1))
    return index.reshape(prod(shape), len(shape))


def _require_alike(
    grid_shape: Sequence[int],
    locations: Sequence[str],
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


def _require_urls(locations: Sequence[str]) -> None:
    if not all(map(contains, locations, repeat("://"))):  # no frame per location: millions of them
        wrong = next(location for location in locations if "://" not in location)
        raise InvalidInputError(
            f"error parsing virtual ref URL: {wrong!r}: relative URL without a base",
            kind="invalid-virtual-ref",
        )
