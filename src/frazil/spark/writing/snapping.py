"""Rows that mean a coordinate value without having its stored bits. Pure, picklable.

A row is at a coordinate value if it has what reading gives for it, in the type of its column:

    coordinate                          column       at 0.1 is
    float64                             FLOAT        the nearest float to 0.1
    floats that count hours or days     TIMESTAMP    the microsecond that is read
    scaled                              DOUBLE       stored * scale_factor + add_offset
    datetime64[ns]                      TIMESTAMP    its microsecond

With a tolerance, the nearest value that is no farther away; in seconds for times.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from frazil.errors import InvalidInputError
from frazil.spark.cf import Decoding, Scaled, Time, decode

type Column = npt.NDArray[Any]
type Mask = npt.NDArray[np.bool_]

_SECOND_US = 1_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Snapping:
    """Values of a coordinate that is there: as a column would say them, and as they are stored."""

    said: Column  # (n,) ascending, none twice
    stored: Column  # (n,) in that order
    tolerance: float  # in the units of `said`

    def find(self, values: Column) -> tuple[Mask, Column]:
        """Which of the rows' values are at a coordinate value, (m,), and at which, stored."""
        if not len(self.said):
            return np.zeros(len(values), dtype=bool), self.stored
        values = values.astype(self.said.dtype)
        after = np.minimum(np.searchsorted(self.said, values), len(self.said) - 1)
        before = np.maximum(after - 1, 0)
        nearer = _distance(values, self.said[before]) < _distance(values, self.said[after])
        nearest = np.where(nearer, before, after)
        at = _distance(values, self.said[nearest]) <= self.tolerance
        return at, self.stored[nearest[at]]


def plan_snapping(
    name: str,
    decoding: Decoding,
    stored: Column,
    wanted: np.dtype[Any],
    tolerance: float | None,
) -> Snapping | None:
    """How rows of the dtype `wanted` find values of a coordinate; None if only by equal bits.

    Raises InvalidInputError if rows could not tell two values apart, or a tolerance means nothing.
    """
    is_time = isinstance(decoding, Time) or stored.dtype.kind in "mM"
    if stored.dtype.kind not in "iufmM":
        if tolerance is not None:
            raise InvalidInputError(f"a tolerance for {name!r}, whose values are no numbers")
        return None
    if tolerance is None and not _is_inexact(decoding, stored.dtype, wanted):
        return None
    values = decode(decoding, stored)
    known = np.ones(len(stored), dtype=bool) if values.null is None else ~values.null
    said = _said(values.values[known], wanted, is_time=is_time)
    order = np.argsort(said, kind="stable")
    said = said[order]
    twice = np.flatnonzero(said[1:] == said[:-1])
    if len(twice):
        raise InvalidInputError(
            f"two values of the coordinate {name!r} are both {said[twice[0]]} in the type of the"
            " column: rows cannot say which they mean"
        )
    unit = _SECOND_US if is_time else 1
    return Snapping(said, stored[known][order], (tolerance or 0.0) * unit)


def require_tolerances(given: Mapping[str, float], dims: tuple[str, ...]) -> None:
    for name, tolerance in given.items():
        if name not in dims:
            raise InvalidInputError(
                f"option 'tolerance' names {name!r}; the dimensions are {', '.join(dims)}"
            )
        if not 0 <= tolerance < np.inf:
            raise InvalidInputError(
                f"option 'tolerance' is {tolerance} for {name!r}, expected a number, 0 or more"
            )


def _is_inexact(decoding: Decoding, stored: np.dtype[Any], wanted: np.dtype[Any]) -> bool:
    """Whether what reading gives may not be stored again as the same bits."""
    if isinstance(decoding, Scaled):
        return True
    if isinstance(decoding, Time):
        return stored.kind == "f" or decoding.is_packed or decoding.per_unit > 1
    if stored.kind in "mM":
        return bool(np.dtype(f"{stored.kind}8[us]") < stored)
    return stored.kind == "f" and wanted.kind == "f" and wanted.itemsize < stored.itemsize


def _said(values: Column, wanted: np.dtype[Any], *, is_time: bool) -> Column:
    if is_time:
        unit = "m8[us]" if values.dtype.kind == "m" else "M8[us]"
        return values.astype(unit).view(np.int64)
    if values.dtype.kind in "iu" and wanted.kind in "iu":
        return values.astype(np.int64)
    return values.astype(np.float32 if wanted == np.float32 else np.float64)


def _distance(one: Column, other: Column) -> Column:
    with np.errstate(invalid="ignore"):  # infinities
        if one.dtype.kind == "f":
            exact = one == other
            return np.where(exact, 0.0, np.abs(one.astype(np.float64) - other.astype(np.float64)))
        return np.abs(one - other)
