"""Positions along a dimension in groups: by the values of a coordinate, or a part of its times.

`time.month` groups by the month, `region` by the values of the coordinate `region`. Groups are in
ascending order of their labels; positions without a label are in none. As in xarray.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from frazil.errors import InvalidInputError
from frazil.spark.cf import Values

PARTS = (
    "year", "month", "day", "hour", "minute", "second",
    "dayofyear", "dayofweek", "weekday", "quarter", "season",
)  # fmt: skip
_SEASONS = np.array(["DJF", "MAM", "JJA", "SON"], dtype=object)

_IN_PANDAS = {"dayofyear": "day_of_year", "dayofweek": "day_of_week", "weekday": "day_of_week"}


@dataclass(frozen=True, slots=True, eq=False)
class Grouping:
    """`codes` (n,) is the group of each position along `dim`, -1 for none."""

    name: str
    dim: str
    labels: npt.NDArray[Any]
    codes: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.labels)


def split_name(text: str) -> tuple[str, str | None]:
    """`time.month` is a coordinate and a part of it."""
    name, _, part = text.partition(".")
    if part and part not in PARTS:
        raise InvalidInputError(f"groupby is {text!r}: there is {', '.join(PARTS)}")
    return name, part or None


def make_grouping(coordinate: str, part: str | None, dim: str, given: Values) -> Grouping:
    values = given.values  # noqa: PD011 -- not of pandas
    has_label = np.ones(len(values), dtype=np.bool_) if given.null is None else ~given.null
    if part is not None:
        values = _part_of(values, has_label, part, coordinate)
    if values.dtype.kind in "OTU":
        values = values.astype(object)
    labels, inverse = np.unique(values[has_label], return_inverse=True)
    codes = np.full(len(values), -1, dtype=np.int64)
    codes[has_label] = inverse.reshape(-1)
    return Grouping(part or coordinate, dim, labels, codes)


def _part_of(
    values: npt.NDArray[Any], has_label: npt.NDArray[np.bool_], part: str, coordinate: str
) -> npt.NDArray[Any]:
    if values.dtype.kind != "M":
        raise InvalidInputError(
            f"{coordinate!r} is not a time of a usual calendar, so it has no {part}"
        )
    times = pd.DatetimeIndex(np.where(has_label, values, np.datetime64(0, "us")))
    if part == "season":
        return np.asarray(_SEASONS[np.asarray(times.month) % 12 // 3])
    return np.asarray(getattr(times, _IN_PANDAS.get(part, part)), dtype=np.int64)
