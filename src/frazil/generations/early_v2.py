"""Signs of a pre-release of version 2 in an entry point that decodes as one of version 2.

Every repository of version 2 is looked at when it is opened, so this module imports little.
"""

import numpy as np
import numpy.typing as npt

from frazil.errors import FormatError
from frazil.flatbuf.columns import StringColumn
from frazil.format.metadata import decode_msgpack
from frazil.format.repo_info import RepoInfo
from frazil.format.schemas import UPDATE_KINDS
from frazil.format.update_log import UndecodedLog

type Ints = npt.NDArray[np.int64]

UPDATES = 7  # slot of the log
_SHORTEST_FLEXBUFFER = 3  # bytes
_NEEDED = np.zeros(256, np.int64)  # slots that an entry of today's kind has at least
for _number, _kind in UPDATE_KINDS.items():
    _NEEDED[_number] = sum(field.required for field in _kind.fields)


def has_early_values(info: RepoInfo) -> bool:
    """True if an entry point that was read as one of version 2 may be an early one."""
    values = info.snapshots.table.tables("metadata").rows.string("value")
    log = info.updates
    return has_short(values) or (isinstance(log, UndecodedLog) and lacks_ids(log.payload))


def has_short(values: StringColumn) -> bool:
    """True if a value is too short for FlexBuffers, and such values are MessagePack."""
    short = np.flatnonzero(values.strings.length < _SHORTEST_FLEXBUFFER)
    try:
        for row in short.tolist():
            decode_msgpack(values.strings.item(row))
    except FormatError:
        return False
    return bool(len(short))


def lacks_ids(payload: bytes) -> bool:
    """True if an entry of the ops log lacks what every entry of its number has today.

    Looks at every entry, but at nothing in it: of a damaged file the answer means nothing.
    """
    try:
        return _Words(payload).lacks_ids()
    except IndexError:
        return False


class _Words:
    """A payload as numbers, read where they are aligned, as all of them are in a sound one."""

    def __init__(self, payload: bytes) -> None:
        self.size = len(payload) // 4 * 4
        self.u1 = np.frombuffer(payload, np.uint8)
        self.u2 = np.frombuffer(payload, "<u2", self.size // 2)
        self.i4 = np.frombuffer(payload, "<i4", self.size // 4)

    def lacks_ids(self) -> bool:
        (root,) = self.u1[:4].view("<u4")
        at = int(root) + self._place(int(root), UPDATES)
        if at == root:
            return False
        at += int(self.i4[at // 4])
        count = int(self.i4[at // 4])
        if at // 4 + 1 + count > len(self.i4):
            return False
        cells = np.arange(at // 4 + 1, at // 4 + 1 + count)
        rows = cells * 4 + self.i4[cells]
        types, cells = rows + self._places(rows, 0), rows + self._places(rows, 1)
        needed = _NEEDED[self.u1[types]]
        if not needed.any():
            return False
        values = (cells + self.i4[cells // 4])[needed > 0]
        needed = needed[needed > 0]
        for slot in range(int(needed.max())):
            if bool((self._places(values, slot)[needed > slot] == 0).any()):
                return True
        return False

    def _place(self, table: int, slot: int) -> int:
        return int(self._places(np.array([table]), slot)[0])

    def _places(self, tables: Ints, slot: int) -> Ints:
        """Offset of the slot in each table, 0 in a table that does not have it."""
        vtables = tables - self.i4[tables // 4]
        at = np.minimum(vtables + 4 + 2 * slot, self.size - 2)
        has = self.u2[vtables // 2] >= 6 + 2 * slot
        places: Ints = self.u2[at // 2].astype(np.int64) * has
        return places
