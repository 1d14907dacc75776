"""Parts of many objects that are read together, and objects that are written in parts.

A store that can do so with less ado than by its other methods is a `PartsStore`. For all others
there are `get`, `get_ranges` and `put`.
"""

from collections.abc import Buffer, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol, runtime_checkable

import numpy as np

from frazil.objectstore.protocol import DataList

type Targets = Sequence[memoryview | None]


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """Parts of objects whose keys begin alike.

    Part i is `length[i]` bytes from `start[i]` on, wanted in `into[i]` if that is not None: a view
    of as many bytes, end to end. Parts `edges[k]` to `edges[k + 1]` are those of object k, in
    ascending order of their starts.
    """

    folder: str  # with a slash at its end
    names: list[str]  # (m,), without
    edges: list[int]  # (m + 1,)
    start: list[int]  # (n,)
    length: list[int]  # (n,)
    into: Targets  # (n,)

    def __len__(self) -> int:
        return len(self.names)

    def some(self, first: int, stop: int) -> "Parts":
        """Of these objects only."""
        low, high = self.edges[first], self.edges[stop]
        return Parts(
            self.folder,
            self.names[first:stop],
            [edge - low for edge in self.edges[first : stop + 1]],
            self.start[low:high],
            self.length[low:high],
            self.into[low:high],
        )


@runtime_checkable
class PartsStore(Protocol):
    """A store that reads many parts at once, and writes parts without putting them together."""

    def read_parts(self, parts: Parts) -> DataList:
        """Bytes of each part, shorter only at the end of its object.

        A part that is wanted somewhere and was put there is answered by that very target.
        """
        ...

    def put_pieces(self, key: str, pieces: Sequence[Buffer]) -> None:
        """Like `put` of the pieces, end to end, whatever is there."""
        ...


def shares(parts: Parts, width: int) -> list[tuple[int, int]]:
    """From, to: the objects that each of at most `width` threads may read.

    A thread is worth while for dozens of small files, or for one large one.
    """
    count, total = len(parts), sum(parts.length)
    number = max(1, min(width, count, max(count // _SHARE_OBJECTS, total // _SHARE_BYTES)))
    if number == 1:
        return [(0, count)]
    # Weighed by bytes, and by what an object costs that has none.
    sizes = np.add.reduceat(np.array(parts.length, np.int64), parts.edges[:-1]) + _OBJECT_BYTES
    ends = np.cumsum(sizes)
    cuts = np.searchsorted(ends, np.arange(1, number) * (ends[-1] / number)) + 1
    return list(pairwise(np.unique(np.concatenate([[0], cuts, [count]])).tolist()))


_SHARE_OBJECTS = 64
_SHARE_BYTES = 1 << 20
_OBJECT_BYTES = 1 << 15
