"""Chunk changes of one array that are not committed yet.

Zarr writes chunks one at a time, pipelines write them by the million. Single writes are gathered
in a dict and turned into columns when a bulk write or the commit needs them; bulk writes are kept
as the columns they came in. Later writes win.
"""

from collections.abc import Iterable
from enum import Enum, auto
from functools import reduce

import numpy as np
import numpy.typing as npt

from frazil.dataclass import dataclass
from frazil.format.chunk_index import SortedKeys, distinct
from frazil.format.chunk_refs import ChunkRefs, Payload

type Index = tuple[int, ...]

FEW = 64


class Untouched(Enum):
    """Result of `find` for a chunk that was not changed: look in the manifests."""

    UNTOUCHED = auto()


UNTOUCHED = Untouched.UNTOUCHED


@dataclass(frozen=True, slots=True, eq=False)
class ChunkChanges:
    """References that were set and chunks that were deleted; no chunk is in both."""

    refs: ChunkRefs
    deleted: npt.NDArray[np.uint32]  # (k, ndim), ascending and distinct

    @classmethod
    def none(cls, ndim: int) -> "ChunkChanges":
        return cls(refs=ChunkRefs.empty(ndim), deleted=_rows([], ndim))

    @property
    def index(self) -> npt.NDArray[np.uint32]:
        """Every changed chunk, (m, ndim), in no particular order."""
        if not len(self.deleted):
            return self.refs.index
        return np.concatenate([self.refs.index, self.deleted])

    def deletes(self, wanted: npt.NDArray[np.uint32]) -> npt.NDArray[np.bool_]:
        """True where a wanted chunk, (m, ndim), is among the deleted."""
        gone: npt.NDArray[np.bool_] = SortedKeys.of(self.deleted).lookup(wanted) >= 0
        return gone

    def over(self, older: "ChunkChanges") -> "ChunkChanges":
        """The effect of `older` and then these."""
        refs = ChunkRefs.merged(older.refs, self.refs, self.deleted)
        kept = older.deleted[self.refs.lookup(older.deleted) < 0]
        deleted = distinct(np.concatenate([kept, self.deleted]))
        return ChunkChanges(refs=refs, deleted=deleted)


class PendingChunks:
    """Not thread-safe, like the ChangeSet it is part of: even looking may rearrange it."""

    def __init__(self, ndim: int) -> None:
        self._ndim = ndim
        self._blocks: list[ChunkChanges] = []  # older ones first
        self._recent: dict[Index, Payload | None] = {}  # newer than all blocks; None: deleted

    @classmethod
    def of(cls, changes: ChunkChanges) -> "PendingChunks":
        pending = cls(changes.refs.ndim)
        pending._blocks.append(changes)
        return pending

    def copy(self) -> "PendingChunks":
        new = PendingChunks(self._ndim)
        new._blocks, new._recent = list(self._blocks), dict(self._recent)
        return new

    def set(self, index: Index, payload: Payload) -> None:
        self._recent[index] = payload

    def delete(self, index: Index) -> None:
        self._recent[index] = None

    def set_many(self, refs: ChunkRefs) -> None:
        self._settle()
        self._blocks.append(ChunkChanges(refs=refs, deleted=_rows([], self._ndim)))

    def delete_many(self, index: npt.NDArray[np.uint32]) -> None:
        self._settle()
        self._blocks.append(ChunkChanges(refs=ChunkRefs.empty(self._ndim), deleted=distinct(index)))

    def change_many(self, changes: ChunkChanges) -> None:
        """Few of them stay single, for the sake of programs that write and read in turns."""
        if len(changes.refs) + len(changes.deleted) > FEW:
            self._settle()
            self._blocks.append(changes)
            return
        for row, index in enumerate(changes.refs.index.tolist()):
            self.set(tuple(index), changes.refs.payload(row))
        for index in changes.deleted.tolist():
            self.delete(tuple(index))

    def find(self, index: Index) -> Payload | Untouched | None:
        """The chunk's payload; None if it was deleted.

        Single writes stay single: a program that reads and writes chunk by chunk would otherwise
        have all of them sorted at every step.
        """
        if index in self._recent:
            return self._recent[index]
        if not self._blocks:
            return UNTOUCHED
        block = self._block()
        if (row := block.refs.find(index)) >= 0:
            return block.refs.payload(row)
        if not len(block.deleted):
            return UNTOUCHED
        return None if block.deletes(_rows([index], self._ndim))[0] else UNTOUCHED

    def changes(self) -> ChunkChanges:
        """Everything so far, as columns."""
        self._settle()
        return self._block() if self._blocks else ChunkChanges.none(self._ndim)

    def _block(self) -> ChunkChanges:
        """All blocks as one."""
        if len(self._blocks) > 1:
            self._blocks = [reduce(lambda older, newer: newer.over(older), self._blocks)]
        return self._blocks[0]

    def _settle(self) -> None:
        """Moves single writes into a block of their own."""
        if not self._recent:
            return
        written = {index: load for index, load in self._recent.items() if load is not None}
        self._blocks.append(
            ChunkChanges(
                refs=ChunkRefs.from_payloads(_rows(written, self._ndim), list(written.values())),
                deleted=distinct(
                    _rows((i for i, load in self._recent.items() if load is None), self._ndim)
                ),
            )
        )
        self._recent = {}


def _rows(indices: Iterable[Index], ndim: int) -> npt.NDArray[np.uint32]:
    listed = list(indices)
    return np.array(listed, dtype=np.uint32).reshape(len(listed), ndim)
