"""Snapshots and their parents."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from frazil.flatbuf.flexbuffers import Json

type Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ListedInfo:
    """A snapshot as listed in the repo info, to be compared with its file."""

    flushed_at_us: int
    message: bytes
    metadata: dict[str, Json] | None  # None if it cannot be decoded


@dataclass(frozen=True, slots=True)
class SnapshotTask:
    """A snapshot to check, together with its log."""

    name: str
    parent: str | None = None
    info: ListedInfo | None = None
    compares_parent: bool = False  # whether the log says all that changed since the parent
    needs_log: bool = True
    amended: bool = False  # or perhaps: its log may list a node as new and as updated


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """Snapshots reachable from the entry point, and the configuration."""

    spec_version: int | None  # None if unknown
    tasks: tuple[SnapshotTask, ...] = ()  # oldest first
    config: Json | None = None
    pruned_logs: frozenset[str] = field(default_factory=frozenset)  # names
    is_complete: bool = True  # False: snapshots may be in use that are not among the tasks


def rows_in_cycles(parents: Rows) -> list[list[int]]:
    """Each cycle of parents once, from its smallest row; `parents` are rows, -1 for none."""
    count = len(parents)
    reach = parents.copy()
    for _ in range(max(count, 1).bit_length() + 1):  # twice as far each time
        reach = np.where(reach >= 0, reach[reach], -1)
        if (reach < 0).all():
            return []
    left = set(np.flatnonzero(reach >= 0).tolist())
    cycles = []
    while left:
        row, walked = min(left), dict[int, int]()
        while row not in walked and row in left:
            walked[row] = len(walked)
            row = int(parents[row])
        if row in walked:
            members = list(walked)[walked[row] :]
            start = members.index(min(members))
            cycles.append(members[start:] + members[:start])
        left -= walked.keys()
    return cycles
