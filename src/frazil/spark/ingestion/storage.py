"""Whether the chunks of the sources can be those of an array, and in which chunks. Pure."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from frazil.errors import InvalidInputError
from frazil.spark.ingestion.chunks import DEFAULT_CHUNK_BYTES, WHOLE
from frazil.spark.sources.description import SourceDescription, VariableDescription
from frazil.spark.sources.stored import StoredAs
from frazil.zarrstore.grib import NAME as GRIB

COPIED_BYTES = 1 << 20  # an array of no more is copied if it cannot be virtual


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Wanted:
    """An array of the result, before it is known how it is stored."""

    variable: VariableDescription  # of the reference
    shape: tuple[int, ...]
    starts: npt.NDArray[np.int64]  # of each source, along the concat dimension
    axis: int | None  # of that dimension
    chunks: Mapping[str, int]  # asked for
    exists: bool  # and keeps its chunks

    @property
    def size_bytes(self) -> int:
        return math.prod(self.shape) * self.variable.dtype.itemsize


def choose_storage(wanted: Wanted, ordered: Sequence[SourceDescription]) -> StoredAs | None:
    """How the array is stored in all sources; None if its values are to be copied.

    Texts and scalars are copied, and small arrays where they cannot be referred to. For others
    that raises InvalidInputError, which names the source.
    """
    if wanted.variable.dtype.hasobject or not wanted.shape:
        return None
    try:
        contributing = ordered if wanted.axis is not None else ordered[:1]
        stored = _cut(_common(wanted.variable, contributing), wanted)
        _require_as_there(wanted, stored, contributing)
        _require_aligned(wanted, stored, contributing)
    except InvalidInputError:
        if wanted.size_bytes > COPIED_BYTES:
            raise
        return None
    return stored


def require_encodable(variable: VariableDescription) -> None:
    """Raises InvalidInputError for an array whose chunks only others can make."""
    stored = variable.storage
    if isinstance(stored, StoredAs) and GRIB in {
        each["name"] for each in json.loads(stored.codecs)
    }:
        raise InvalidInputError(
            f"variable {variable.name!r} consists of GRIB messages, to which values cannot be"
            " added: append to it with virtual=True",
            kind="bad-metadata",
        )


def _common(variable: VariableDescription, sources: Sequence[SourceDescription]) -> StoredAs:
    first: StoredAs | None = None
    for source in sources:
        found = source.variables[variable.name].storage
        if not isinstance(found, StoredAs):
            raise _not_virtual(source, variable, f"it has {found or 'no description'}")
        first = first or found
        if not first.fits(found):
            raise _not_virtual(source, variable, f"its {_difference(first, found)}")
    if first is None:
        raise InvalidInputError("no sources given")
    return first


def _difference(first: StoredAs, other: StoredAs) -> str:
    for name in ("chunks", "data_type", "codecs", "fill"):
        one, two = getattr(first, name), getattr(other, name)
        if one != two:
            return f"{name} are {two}, elsewhere {one}"
    return "values do not lie as elsewhere"


def _require_as_there(
    wanted: Wanted, stored: StoredAs, sources: Sequence[SourceDescription]
) -> None:
    """What an array holds already is decoded in the same way as what is added to it."""
    variable, there = wanted.variable, wanted.variable.storage
    if not wanted.exists:
        return
    if not isinstance(there, StoredAs):
        raise _not_virtual(sources[0], variable, f"the array has {there or 'no description'}")
    fills = {stored.fill, there.fill} if "_FillValue" not in variable.attrs else set()
    if not there.decodes(stored) or there.data_type != stored.data_type or len(fills) > 1:
        raise _not_virtual(
            sources[0], variable, f"its {_difference(there, replace(stored, chunks=there.chunks))}"
        )


def _cut(stored: StoredAs, wanted: Wanted) -> StoredAs:
    """Values in one piece, in chunks of a good size."""
    variable = wanted.variable
    if not stored.is_row or not stored.chunks:
        return stored
    axis = stored.stacked
    if wanted.exists and variable.chunks is not None:
        return stored.cut(variable.chunks[axis])
    lengths = np.diff(wanted.starts) if wanted.axis == axis else np.array([wanted.shape[axis]])
    common = int(np.gcd.reduce(lengths)) or 1
    row = variable.dtype.itemsize * math.prod(stored.chunks[axis + 1 :])
    most = wanted.chunks.get(variable.dims[axis], max(1, DEFAULT_CHUNK_BYTES // max(1, row)))
    most = common if most == WHOLE else most
    return stored.cut(next(n for n in range(min(common, most), 0, -1) if common % n == 0))


def _require_aligned(
    wanted: Wanted, stored: StoredAs, sources: Sequence[SourceDescription]
) -> None:
    variable, axis, starts = wanted.variable, wanted.axis, wanted.starts
    if wanted.exists and variable.chunks is not None and variable.chunks != stored.chunks:
        raise _not_virtual(
            sources[0], variable, f"its chunks are {stored.chunks}, {variable.chunks} in the array"
        )
    for dim, have in zip(variable.dims, stored.chunks, strict=True):
        asked = wanted.chunks.get(dim, have)
        if asked not in {have, WHOLE} and not wanted.exists:
            raise _not_virtual(sources[0], variable, f"its chunks are {have} along {dim!r}")
    if axis is None:
        return
    uneven = np.flatnonzero(starts[: len(sources)] % stored.chunks[axis])
    if len(uneven):
        at = int(uneven[0])
        raise _not_virtual(
            sources[at],
            variable,
            f"it would begin at {int(starts[at])} along {variable.dims[axis]!r}, which is inside"
            f" a chunk of {stored.chunks[axis]}",
        )


def _not_virtual(
    source: SourceDescription, variable: VariableDescription, reason: str
) -> InvalidInputError:
    return InvalidInputError(
        f"{source.path}: variable {variable.name!r} cannot be virtual: {reason};"
        " copy it, or choose other variables",
        kind="bad-metadata",
    )
