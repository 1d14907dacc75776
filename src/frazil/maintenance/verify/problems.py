"""One thing that is wrong, and where."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from frazil.maintenance.verify.kinds import KINDS, Severity

type Rows = npt.NDArray[np.int64]

OF_NODES = {  # the same in every snapshot that has the node as it is
    "zarr-metadata-invalid",
    "zarr-node-type",
    "zarr-shape",
    "zarr-dimension-names",
    "extents-dimensions",
    "extents-invalid",
    "extents-overlap",
}
MOST_ROWS = 100  # of one kind in one array of one file; the rest is counted


@dataclass(frozen=True, slots=True)
class Place:
    """A file by its key, and what in it: a node by its path, a chunk by its index."""

    file: str
    node: str | None = None
    chunk: tuple[int, ...] | None = None

    def __str__(self) -> str:
        node = "" if self.node is None else f" {self.node}"
        chunk = "" if self.chunk is None else f"[{','.join(map(str, self.chunk))}]"
        return f"{self.file}{node}{chunk}"


@dataclass(frozen=True, slots=True)
class Problem:
    """`kind` is a name of kinds.KINDS. `count` is of the chunks or rows that it stands for."""

    kind: str
    place: Place
    text: str
    count: int = 1

    @property
    def severity(self) -> Severity:
        return KINDS[self.kind].severity

    @property
    def repairable(self) -> bool:
        """True if there is a repair for the kind; it may still lack what it needs."""
        return KINDS[self.kind].repair is not None

    def __str__(self) -> str:
        return f"{self.severity}: {self.kind}: {self.place}: {self.text}"


def problem(
    kind: str,
    file: str,
    text: str,
    *,
    node: str | None = None,
    chunk: Sequence[int] | None = None,
) -> Problem:
    index = None if chunk is None else tuple(int(each) for each in chunk)
    return Problem(kind, Place(file, node, index), text)


def problems_of_rows(
    kind: str,
    place: Place,
    rows: Rows,
    index: npt.NDArray[np.uint32] | None,
    text: Callable[[int], str],
) -> list[Problem]:
    """One for each of the rows, by their index if they are chunks; the last counts the rest."""
    found = []
    for row in rows[:MOST_ROWS].tolist():
        chunk = None if index is None else tuple(index[row].tolist())
        found.append(Problem(kind, replace(place, chunk=chunk), text(row)))
    rest = len(rows) - len(found)
    if rest > 0:
        found.append(Problem(kind, place, f"and {rest} more", rest))
    return found


def first_of_each(problems: Iterable[Problem]) -> list[Problem]:
    """Without what was said of the same node before, of an earlier snapshot."""
    seen = set[tuple[str, str | None, str]]()
    kept = []
    for each in problems:
        fact = each.kind, each.place.node, each.text
        if each.kind in OF_NODES and fact in seen:
            continue
        seen.add(fact)
        kept.append(each)
    return kept


def worst_first(problems: Iterable[Problem]) -> list[Problem]:
    """Problems by severity, kind and place: a list that does not depend on how they were found."""
    return sorted(
        set(problems),
        key=lambda one: (
            one.severity.rank,
            one.kind,
            one.place.file,
            one.place.node or "",
            one.place.chunk or (),
            one.count,
            one.text,
        ),
    )
