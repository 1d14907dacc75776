"""The objects of one folder by id, as columns."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from frazil.maintenance.id_sets import IdSet, ascending, halves

type Ids = npt.NDArray[np.uint8]  # (n, 12)


@dataclass(frozen=True, slots=True, eq=False)
class Objects:
    """Objects by ascending id: its first eight bytes, its last four, and the object's size."""

    high: npt.NDArray[np.uint64]  # (n,)
    low: npt.NDArray[np.uint32]  # (n,)
    sizes: npt.NDArray[np.int64]  # (n,)

    @classmethod
    def of(cls, ids: Ids, sizes: npt.NDArray[np.int64]) -> "Objects":
        """Objects given in any order."""
        high, low = halves(ids)
        order = ascending(high, low)
        return cls(high[order], low[order], sizes[order])

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def ids(self) -> IdSet:
        return IdSet(self.high, self.low)

    def sizes_of(self, ids: Ids) -> npt.NDArray[np.int64]:
        """(m,) bytes of each, -1 where there is none."""
        found = np.full(len(ids), -1, dtype=np.int64)
        if not len(self) or not len(ids):
            return found
        high, low = halves(ids)
        order = np.argsort(high, kind="stable")  # neighbours are found in neighbouring places
        at = np.empty(len(ids), dtype=np.int64)
        at[order] = np.searchsorted(self.high, high[order])
        open_rows = np.arange(len(ids))
        while len(open_rows):  # once, unless ids begin alike
            place = at[open_rows]
            inside = place < len(self)
            open_rows, place = open_rows[inside], place[inside]
            alike = self.high[place] == high[open_rows]
            open_rows, place = open_rows[alike], place[alike]
            hit = self.low[place] == low[open_rows]
            found[open_rows[hit]] = self.sizes[place[hit]]
            open_rows = open_rows[~hit]
            at[open_rows] += 1
        return found

    def bytes_outside(self, used: IdSet) -> tuple[int, int]:
        """Number and bytes of the objects that are not among these."""
        outside = ~used.contains(self.ids.ids())
        return int(np.count_nonzero(outside)), int(self.sizes[outside].sum())
