"""Where sources that replace a part of a group lie in it."""

from collections.abc import Sequence

import numpy as np

from frazil.errors import InvalidInputError
from frazil.spark.ingestion.checks import Conversions
from frazil.spark.ingestion.order import concatenate_coordinate
from frazil.spark.sources.description import SourceDescription


def find_start(
    existing: SourceDescription,
    ordered: Sequence[SourceDescription],
    conversions: Sequence[Conversions],
    dim: str,
) -> int:
    """Where the coordinates of the sources are, one after the other, in those of the group.

    Raises InvalidInputError if they are not.
    """
    coordinate = existing.variables.get(dim)
    if coordinate is None or coordinate.values is None:
        raise InvalidInputError(
            f"{existing.path} has no coordinate {dim!r} that tells where the sources go"
        )
    wanted = concatenate_coordinate(coordinate, ordered, conversions, None)
    if not len(wanted):
        raise InvalidInputError(f"{ordered[0].path}: nothing along {dim!r}", kind="bad-metadata")
    start = int(np.argmax(coordinate.values == wanted[0]))
    have = coordinate.values[start : start + len(wanted)]
    differing = np.flatnonzero(have != wanted[: len(have)])
    at = int(differing[0]) if len(differing) else len(have)
    if at < len(wanted):
        raise InvalidInputError(
            f"{ordered[0].path}: coordinate {dim!r} has {wanted[at]}, and {existing.path} does not,"
            " or not there: only what it has, in its order, can be replaced; mode='append' adds"
            " to it",
            kind="bad-metadata",
        )
    return start
