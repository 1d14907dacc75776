"""The snapshots that a repo info lists: SNAPSHOT_INFO as columns, growing by one at a time."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from frazil.dataclass import dataclass
from frazil.errors import FormatError
from frazil.flatbuf.columns import ScalarColumn, StringColumn, StructColumn, VectorColumn
from frazil.flatbuf.flexbuffers import Json
from frazil.flatbuf.ragged import splits_of
from frazil.flatbuf.table import Table, TableVectorColumn
from frazil.format.metadata import decode_metadata, encode_metadata, encode_metadata_of
from frazil.format.nodes import id_column
from frazil.format.schemas import SNAPSHOT_INFO
from frazil.ids import SnapshotId


class SnapshotInfos:
    """The snapshots that a repo info lists, in ascending order of id. Not to be changed."""

    __slots__ = ("_stored_table",)

    def __init__(self, table: Table) -> None:
        self._stored_table = table

    @property
    def table(self) -> Table:
        """SNAPSHOT_INFO"""
        return self._stored_table

    @classmethod
    def empty(cls) -> "SnapshotInfos":
        return cls(Table.empty(SNAPSHOT_INFO))

    def __len__(self) -> int:
        return len(self.table)

    @property
    def ids(self) -> npt.NDArray[np.uint8]:
        """(n, 12)"""
        return self.table.struct("id").values

    @property
    def parents(self) -> npt.NDArray[np.int32]:
        """(n,) row of each snapshot's parent, -1 for none."""
        return self.table.scalar("parent_offset").values

    @property
    def flushed_at_us(self) -> npt.NDArray[np.uint64]:
        """(n,)"""
        return self.table.scalar("flushed_at").values

    def id(self, row: int) -> SnapshotId:
        return SnapshotId(self.ids[row].tobytes())

    def parent(self, row: int) -> int:
        """Row of the parent, -1 for none."""
        return int(self.parents[row])

    def flushed_at(self, row: int) -> int:
        return int(self.flushed_at_us[row])

    def message(self, row: int) -> str:
        return self.table.string("message").text(row) or ""

    def metadata(self, row: int) -> dict[str, Json]:
        items = self.table.tables("metadata")
        rows = np.arange(int(items.splits[row]), int(items.splits[row + 1]), dtype=np.int64)
        return decode_metadata(items.rows.take(rows))

    def pruned_logs(self, row: int) -> list[bytes]:
        """Transaction logs of ancestors that were expired, oldest first (spec 2.1)."""
        return [raw.tobytes() for raw in self.table.vector("pruned_ancestor_tx_logs").row(row)]

    def find(self, wanted: SnapshotId) -> int:
        """Row of the snapshot, -1 if it is not listed."""
        row = self._place(wanted)
        return row if row < len(self) and self.ids[row].tobytes() == wanted.raw else -1

    def shift_refs(self, refs: dict[str, int], row: int) -> dict[str, int]:
        """Rows of refs after a snapshot was inserted at `row`."""
        return {name: at + (at >= row) for name, at in refs.items()}

    def ancestors(self, row: int) -> Iterator[int]:
        """`row`, its parent, and so on to the root."""
        parent_of = self.parents.item
        for _ in range(len(self)):
            yield row
            row = parent_of(row)
            if row < 0:
                return
        raise FormatError("the parents of a snapshot form a cycle", where="repo")

    def _place(self, wanted: SnapshotId) -> int:
        return bisect_left(range(len(self)), wanted.raw, key=lambda row: self.ids[row].tobytes())

    def place_for(self, new: SnapshotId, parent: SnapshotId | None) -> tuple[int, int]:
        """The row that it would get, and that of its parent, -1 for none."""
        above = -1 if parent is None else self.find(parent)
        if parent is not None and above < 0:
            raise FormatError(f"parent {parent} of snapshot {new} is not listed")
        if self.find(new) >= 0:
            raise FormatError(f"snapshot {new} is listed already", kind="duplicate-snapshot-id")
        return self._place(new), above

    def inserted(
        self,
        new: SnapshotId,
        *,
        parent: SnapshotId | None,
        flushed_at_us: int,
        message: str,
        metadata: Mapping[str, Json],
        pruned_logs: Sequence[bytes] = (),
    ) -> tuple["SnapshotInfos", int]:
        """These and one more, and its row: rows from there on have moved by one."""
        row, parent_row = self.place_for(new, parent)
        added = Table.build(
            SNAPSHOT_INFO,
            1,
            id=StructColumn.of(id_column([new.raw], SnapshotId.size)),
            parent_offset=ScalarColumn.of([parent_row], "i4"),
            flushed_at=ScalarColumn.of([flushed_at_us], "u8"),
            message=StringColumn.from_list([message]),
            metadata=TableVectorColumn.of(encode_metadata(metadata)),
            pruned_ancestor_tx_logs=_encode_logs(pruned_logs),
        )
        before, after = self.table.take(slice(0, row)), self.table.take(slice(row, None))
        table = Table.concat([before, added, after])
        parents = table.scalar("parent_offset").values
        moved = ScalarColumn.of(np.where(parents >= row, parents + 1, parents), "i4")
        return SnapshotInfos(table.replace(parent_offset=moved)), row


def _encode_logs(ids: Sequence[bytes]) -> VectorColumn:
    """The pruned logs of one snapshot; absent if there are none."""
    values = id_column(ids, SnapshotId.size)
    return VectorColumn(values, np.array([0, len(ids)]), np.array([len(ids) > 0]))


def sorted_snapshots(table: Table) -> tuple[SnapshotInfos, npt.NDArray[np.int64]]:
    """Snapshots sorted by id, and the new row of each row of the table."""
    parents = table.scalar("parent_offset").values
    if len(parents) and not (int(parents.min()) >= -1 and int(parents.max()) < len(parents)):
        raise FormatError("a snapshot's parent is not listed")
    every = np.arange(len(table), dtype=np.int64)
    high, low = _numbers_of_ids(table.struct("id").values)
    if bool((high[1:] > high[:-1]).all()):  # as all known writers sort them
        return SnapshotInfos(table), every
    order = np.lexsort((low, high)).astype(np.int64)
    if np.array_equal(order, every):
        return SnapshotInfos(table), every
    new_rows = np.empty_like(order)
    new_rows[order] = every
    moved = np.where(parents < 0, -1, np.append(new_rows, -1)[parents])
    table = table.replace(parent_offset=ScalarColumn.of(moved, "i4")).take(order)
    return SnapshotInfos(table), new_rows


def _numbers_of_ids(
    ids: npt.NDArray[np.uint8],
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint32]]:
    """The first 8 and the last 4 bytes of (n, 12) ids, as numbers that are ordered as they are."""
    high = np.ascontiguousarray(ids[:, :8]).view(">u8")[:, 0].astype(np.uint64)
    low = np.ascontiguousarray(ids[:, 8:]).view(">u4")[:, 0].astype(np.uint32)
    return high, low


@dataclass(frozen=True, slots=True)
class Added:
    """A snapshot that was added after the table was encoded."""

    id: SnapshotId
    flushed_at_us: int
    message: str
    metadata: Mapping[str, Json]
    pruned_logs: Sequence[bytes]


@dataclass(frozen=True, slots=True, eq=False)
class _Keys:
    """The columns that every commit needs, of all snapshots in ascending order of id."""

    ids: npt.NDArray[np.uint8]  # (n, 12)
    parents: npt.NDArray[np.int32]  # (n,)
    flushed_at_us: npt.NDArray[np.uint64]  # (n,)

    def inserted(self, row: int, new: Added, parent: int) -> "_Keys":
        """These and one more, at `row`, whose parent is at a row counted without it."""
        raw = np.frombuffer(new.id.raw, dtype=np.uint8).reshape(1, -1)
        parents = self.parents + (self.parents >= row).astype(np.int32)
        above = np.array([parent + (parent >= row)], dtype=np.int32)
        time = np.array([new.flushed_at_us], dtype=np.uint64)
        return _Keys(
            np.concatenate([self.ids[:row], raw, self.ids[row:]]),
            np.concatenate([parents[:row], above, parents[row:]]),
            np.concatenate([self.flushed_at_us[:row], time, self.flushed_at_us[row:]]),
        )


class GrowingSnapshots(SnapshotInfos):
    """A base table and the snapshots added since, the last of which may not be encoded yet.

    `encoded_in` is what the other snapshots are encoded in. Added snapshots are merged into one
    table only when more than ids, parents and times is asked for.
    """

    __slots__ = ("_added", "_keys", "_merged", "encoded_in", "new_row")

    def __init__(
        self,
        base: Table,
        encoded_in: object,
        *,
        added: tuple[Added, ...] = (),
        keys: _Keys | None = None,
        new_row: int | None = None,
    ) -> None:
        """`added` is oldest first; `new_row` is the row of the last one if it is not encoded."""
        super().__init__(base)
        plain = SnapshotInfos(base)
        self._added = added
        self._keys = keys or _Keys(plain.ids, plain.parents, plain.flushed_at_us)
        self._merged: Table | None = None
        self.encoded_in = encoded_in
        self.new_row = new_row

    def now_in(self, encoded_in: object) -> "GrowingSnapshots":
        """The same snapshots, all of them encoded in `encoded_in`."""
        return GrowingSnapshots(self._stored_table, encoded_in, added=self._added, keys=self._keys)

    @property
    def newest(self) -> Added:
        return self._added[-1]

    @property
    def ids(self) -> npt.NDArray[np.uint8]:
        return self._keys.ids

    @property
    def parents(self) -> npt.NDArray[np.int32]:
        return self._keys.parents

    @property
    def flushed_at_us(self) -> npt.NDArray[np.uint64]:
        return self._keys.flushed_at_us

    def __len__(self) -> int:
        return len(self._keys.ids)

    @property
    def table(self) -> Table:
        if self._merged is None:
            self._merged = self._merge() if self._added else self._stored_table
        return self._merged

    def _merge(self) -> Table:
        """All snapshots in one table, in ascending order of id."""
        added = self._added
        logs = [id_column(each.pruned_logs, SnapshotId.size) for each in added]
        counts = np.array([len(each.pruned_logs) for each in added], dtype=np.int64)
        new = Table.build(
            SNAPSHOT_INFO,
            len(added),
            id=StructColumn.of(id_column([each.id.raw for each in added], SnapshotId.size)),
            parent_offset=ScalarColumn.of(np.zeros(len(added), dtype=np.int32), "i4"),
            flushed_at=ScalarColumn.of([each.flushed_at_us for each in added], "u8"),
            message=StringColumn.from_list([each.message for each in added]),
            metadata=encode_metadata_of([each.metadata for each in added]),
            pruned_ancestor_tx_logs=VectorColumn(
                np.concatenate(logs), splits_of(counts), counts > 0
            ),
        )
        both = Table.concat([self._stored_table, new])
        keys = np.ascontiguousarray(both.struct("id").values).view(">u4").reshape(-1, 3)
        order = np.lexsort((keys[:, 2], keys[:, 1], keys[:, 0]))
        return both.take(order).replace(parent_offset=ScalarColumn.of(self.parents, "i4"))

    def inserted(
        self,
        new: SnapshotId,
        *,
        parent: SnapshotId | None,
        flushed_at_us: int,
        message: str,
        metadata: Mapping[str, Json],
        pruned_logs: Sequence[bytes] = (),
    ) -> tuple[SnapshotInfos, int]:
        row, above = self.place_for(new, parent)
        snapshot = Added(new, flushed_at_us, message, dict(metadata), tuple(pruned_logs))
        grown = GrowingSnapshots(
            self._stored_table,
            # A second one before the first was written: all of them have to be encoded again.
            self.encoded_in if self.new_row is None else None,
            added=(*self._added, snapshot),
            keys=self._keys.inserted(row, snapshot, above),
            new_row=row,
        )
        return grown, row
