"""Snapshots of a version 1 repository, which are listed nowhere: each names its parent.

Rows are given out as snapshots become known, and a snapshot's file is read when its contents are
needed. So a commit looks at one file, however long the history is.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from frazil.errors import FormatError, ObjectNotFoundError
from frazil.flatbuf.columns import ScalarColumn, StringColumn, StructColumn
from frazil.flatbuf.flexbuffers import Json
from frazil.flatbuf.table import Table
from frazil.format.metadata import encode_metadata_of
from frazil.format.nodes import id_column
from frazil.format.schemas import SNAPSHOT_INFO
from frazil.format.snapshot import SnapshotHead
from frazil.format.snapshot_infos import SnapshotInfos
from frazil.ids import SnapshotId

type Load = Callable[[SnapshotId], SnapshotHead]


class SnapshotChain(SnapshotInfos):
    """Snapshots in no order: those reachable from known ones stand for all.

    A snapshot that is not reachable from a branch or tag is known once it was looked up by id:
    `find` raises ObjectNotFoundError if there is no such file.

    `load` may cache. Another client may have expired snapshots since, which gave others a new
    parent: where a parent is gone, `forget` empties the cache and the history is read again.
    """

    __slots__ = ("_complete", "_forget", "_heads", "_ids", "_load", "_rows")

    _ids: list[SnapshotId]
    _rows: dict[SnapshotId, int]
    _heads: dict[SnapshotId, SnapshotHead]  # not stored yet, or read before
    _load: Load
    _forget: Callable[[], None] | None
    _complete: Callable[[], None]

    def __init__(
        self,
        load: Load,
        ids: Iterable[SnapshotId] = (),
        *,
        complete: Callable[[], None] = lambda: None,
        forget: Callable[[], None] | None = None,
    ) -> None:
        """`complete` makes all refs known that are not yet, before all snapshots are asked for."""
        known = list(dict.fromkeys(ids))
        for name, value in (
            ("_load", load),
            ("_forget", forget),
            ("_ids", known),
            ("_rows", {snapshot: row for row, snapshot in enumerate(known)}),
            ("_heads", {}),
            ("_complete", complete),
        ):
            object.__setattr__(self, name, value)  # the class is frozen; what these hold grows

    def row_of(self, snapshot: SnapshotId) -> int:
        """Its row, a new one if need be; nothing is read."""
        row = self._rows.setdefault(snapshot, len(self._ids))
        if row == len(self._ids):
            self._ids.append(snapshot)
        return row

    def head(self, row: int) -> SnapshotHead:
        snapshot = self._ids[row]
        if snapshot not in self._heads:
            self._heads[snapshot] = self._load(snapshot)
        return self._heads[snapshot]

    # One snapshot

    def id(self, row: int) -> SnapshotId:
        return self._ids[row]

    def parent(self, row: int) -> int:
        parent = self.head(row).parent_id
        return -1 if parent is None else self.row_of(parent)

    def flushed_at(self, row: int) -> int:
        return self.head(row).flushed_at_us

    def message(self, row: int) -> str:
        return self.head(row).message

    def metadata(self, row: int) -> dict[str, Json]:
        return self.head(row).metadata

    def pruned_logs(self, row: int) -> list[bytes]:
        """Version 1 forgets them."""
        del row
        return []

    def find(self, wanted: SnapshotId) -> int:
        if wanted not in self._rows:
            self._heads[wanted] = self._load(wanted)
        return self.row_of(wanted)

    def ancestors(self, row: int) -> Iterator[int]:
        start, seen, is_fresh = row, set[int](), self._forget is None
        while row >= 0:
            if row in seen:
                raise FormatError("the parents of a snapshot form a cycle")
            try:
                self.head(row)
            except ObjectNotFoundError:
                if is_fresh:
                    raise
                is_fresh, row = True, self._resume(start, seen)
                continue
            seen.add(row)
            yield row
            row = self.parent(row)

    def _resume(self, start: int, seen: set[int]) -> int:
        """The first ancestor of `start`, read again, that was not seen; -1 if there is none."""
        if self._forget is not None:
            self._forget()
        fresh = SnapshotChain(self._load, [self._ids[start]])
        for row in fresh.ancestors(0):
            head = fresh.head(row)
            self._heads[head.id] = head
            if (own := self.row_of(head.id)) not in seen:
                return own
        return -1

    def inserted(
        self,
        new: SnapshotId,
        *,
        parent: SnapshotId | None,
        flushed_at_us: int,
        message: str,
        metadata: Mapping[str, Json],
        pruned_logs: Sequence[bytes] = (),
    ) -> tuple["SnapshotChain", int]:
        if pruned_logs:
            raise FormatError("version 1 lists no pruned logs", kind="unsupported-spec-version")
        # In place: refs that are read later get rows of this chain.
        self._heads[new] = SnapshotHead(
            id=new,
            parent_id=parent,
            flushed_at_us=flushed_at_us,
            message=message,
            metadata=dict(metadata),
        )
        return self, self.row_of(new)

    def shift_refs(self, refs: dict[str, int], row: int) -> dict[str, int]:
        """Returns them unchanged: rows never shift in a chain."""
        del row
        return refs

    # All of them

    def __len__(self) -> int:
        """Also makes every ancestor known."""
        self._complete()
        row = 0
        while row < len(self._ids):
            self.parent(row)
            row += 1
        return row

    @property
    def ids(self) -> npt.NDArray[np.uint8]:
        count = len(self)
        return id_column([snapshot.raw for snapshot in self._ids[:count]], SnapshotId.size)

    @property
    def parents(self) -> npt.NDArray[np.int32]:
        return np.array([self.parent(row) for row in range(len(self))], dtype=np.int32)

    @property
    def flushed_at_us(self) -> npt.NDArray[np.uint64]:
        return np.array([self.flushed_at(row) for row in range(len(self))], dtype=np.uint64)

    @property
    def table(self) -> Table:
        heads = [self.head(row) for row in range(len(self))]
        return Table.build(
            SNAPSHOT_INFO,
            len(heads),
            id=StructColumn.of(self.ids),
            parent_offset=ScalarColumn.of(self.parents, "i4"),
            flushed_at=ScalarColumn.of(self.flushed_at_us, "u8"),
            message=StringColumn.from_list([head.message for head in heads]),
            metadata=encode_metadata_of([head.metadata for head in heads]),
        )
