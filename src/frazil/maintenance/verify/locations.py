"""Locations of virtual chunks: each distinct one is checked once."""

import re

import numpy as np
import numpy.typing as npt

from frazil.flatbuf.columns import StringColumn
from frazil.flatbuf.table import Table
from frazil.format.containers import Containers
from frazil.maintenance.verify.problems import Place, Problem, problems_of_rows

type Rows = npt.NDArray[np.int64]

_URL = re.compile(rb"[A-Za-z][A-Za-z0-9+.-]*://.")
_LAST = np.uint64(2**64 - 1)


def check_locations(
    place: Place,
    table: Table,
    locations: StringColumn,
    index: npt.NDArray[np.uint32] | None,
    containers: Containers | None,
) -> list[Problem]:
    """Checks the references of an array; rows without a location are not virtual."""
    virtual = np.flatnonzero(locations.present & ~table.struct("chunk_id").present)
    if not len(virtual):
        return []
    codes = locations.codes[virtual]
    texts = locations.strings
    used = np.unique(codes[codes >= 0])
    is_url = np.ones(len(texts) + 1, dtype=np.bool_)
    is_url[used] = [_is_url(texts.item(code)) for code in used.tolist()]
    is_url[-1] = False  # of no location at all
    offset = table.scalar("offset").values[virtual]
    length = table.scalar("length").values[virtual]
    both = table.string("checksum_etag").present[virtual]
    both = both & (table.scalar("checksum_last_modified").values[virtual] > 0)

    def location(row: int) -> str:
        return (locations.item(row) or b"").decode("utf-8", "replace")

    found = problems_of_rows(
        "virtual-location", place, virtual[~is_url[codes]], index, lambda row: repr(location(row))
    )
    found += problems_of_rows(
        "virtual-range",
        place,
        virtual[length > _LAST - offset],
        index,
        lambda row: f"{location(row)} from {int(table.scalar('offset').values[row])} on",
    )
    found += problems_of_rows("virtual-checksums", place, virtual[both], index, location)
    if containers is not None:
        found += _check_covered(place, locations, virtual, used[is_url[used]], containers)
    return found


def _check_covered(
    place: Place, locations: StringColumn, virtual: Rows, used: Rows, containers: Containers
) -> list[Problem]:
    """One problem for each place that is not covered, not for each chunk in it."""
    outside = used[~containers.covered(locations.strings.take(used))]
    if not len(outside):
        return []
    count = np.bincount(locations.codes[virtual], minlength=len(locations.strings))
    by_prefix: dict[str, list[int]] = {}
    for code in outside.tolist():
        text = locations.strings.item(code).decode("utf-8", "replace")
        by_prefix.setdefault(text.rpartition("/")[0] + "/", []).append(code)
    return [
        Problem("virtual-uncovered", place, f"{prefix}...", int(count[codes].sum()))
        for prefix, codes in by_prefix.items()
    ]


def _is_url(location: bytes) -> bool:
    return _URL.match(location) is not None
