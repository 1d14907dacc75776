"""The chunk shape of each array that an ingest creates."""

import math
from collections.abc import Mapping

from frazil.errors import InvalidInputError
from frazil.spark.sources.description import SourceDescription, VariableDescription

WHOLE = -1  # as in xarray and dask: one chunk for the whole dimension
DEFAULT_CHUNK_BYTES = 8 << 20
TEXT_BYTES = 32  # a guess: text has no fixed size

# A growing coordinate gets room for many appends in its first chunk. The unused part compresses to
# nothing, and readers fetch one chunk for years of hours instead of one per append.
GROWING_COORDINATE_CHUNK = 8192


def require_known_dims(chunks: Mapping[str, int], reference: SourceDescription) -> None:
    for dim, size in chunks.items():
        if dim not in reference.sizes:
            raise InvalidInputError(
                f"chunks name the dimension {dim!r};"
                f" there is {', '.join(sorted(reference.sizes)) or 'none'}"
            )
        if size != WHOLE and size < 1:
            raise InvalidInputError(f"chunks of {size} along {dim!r}: at least 1, or -1 for whole")


def coordinate_chunks(length: int, *, grows: bool) -> tuple[int, ...]:
    """One chunk for the whole coordinate."""
    return (max(length, GROWING_COORDINATE_CHUNK if grows else 1),)


def target_chunks(
    variable: VariableDescription,
    shape: tuple[int, ...],
    chunks: Mapping[str, int],
    concat_dim: str | None,
) -> tuple[int, ...]:
    """What `chunks` says; else whole dimensions, with as many steps of the concat dimension as
    make a chunk of about DEFAULT_CHUNK_BYTES.
    """
    wanted = {dim: chunks.get(dim, WHOLE) for dim, size in zip(variable.dims, shape, strict=True)}
    sizes = dict(zip(variable.dims, shape, strict=True))
    resolved = {dim: sizes[dim] if n == WHOLE else n for dim, n in wanted.items()}
    if concat_dim in sizes and concat_dim not in chunks:
        item = TEXT_BYTES if variable.dtype.hasobject else variable.dtype.itemsize
        others = math.prod(n for dim, n in resolved.items() if dim != concat_dim)
        resolved[concat_dim] = min(
            sizes[concat_dim], max(1, DEFAULT_CHUNK_BYTES // max(1, item * others))
        )
    # Only the concat dimension can grow: elsewhere a chunk larger than the array is a waste.
    return tuple(
        max(1, n if dim == concat_dim else min(n, sizes[dim])) for dim, n in resolved.items()
    )
