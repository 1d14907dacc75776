"""The snapshots of a repo info, and a few more that are not in their table yet."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from frazil.flatbuf.columns import ScalarColumn, StringColumn, StructColumn, VectorColumn
from frazil.flatbuf.flexbuffers import Json
from frazil.flatbuf.ragged import splits_of
from frazil.flatbuf.table import Table
from frazil.format.metadata import encode_metadata_of
from frazil.format.nodes import id_column
from frazil.format.repo_info import SnapshotInfos
from frazil.format.schemas import SNAPSHOT_INFO
from frazil.ids import SnapshotId

type Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Added:
    id: SnapshotId
    flushed_at_us: int
    message: str
    metadata: Mapping[str, Json]
    pruned_logs: Sequence[bytes]


class GrowingSnapshots(SnapshotInfos):
    """Knows in which bytes it is encoded, but for the row that was inserted last.

    The table is put together when somebody asks for more than ids, parents and times.
    """

    __slots__ = ("_added", "_base", "_ids", "_made", "_parents", "_times", "encoded_in", "new_row")

    _base: SnapshotInfos
    _added: tuple[Added, ...]  # since, oldest first
    _ids: npt.NDArray[np.uint8]
    _parents: npt.NDArray[np.int32]
    _times: npt.NDArray[np.uint64]
    _made: list[Table]
    encoded_in: object
    new_row: int | None  # of the last one added, if it is not among what is encoded

    def __init__(self, base: SnapshotInfos, encoded_in: object) -> None:
        self._become(base, (), base.ids, base.parents, base.flushed_at_us, encoded_in, None)

    def _become(self, *values: Any) -> None:
        names = ("_base", "_added", "_ids", "_parents", "_times", "encoded_in", "new_row")
        for name, value in zip(names, values, strict=True):
            object.__setattr__(self, name, value)  # the class is frozen
        object.__setattr__(self, "_made", [])

    def now_in(self, encoded_in: object) -> "GrowingSnapshots":
        """The same, all of them encoded there."""
        new = object.__new__(GrowingSnapshots)
        new._become(
            self._base, self._added, self._ids, self._parents, self._times, encoded_in, None
        )
        return new

    @property
    def newest(self) -> Added:
        return self._added[-1]

    @property
    def ids(self) -> npt.NDArray[np.uint8]:
        return self._ids

    @property
    def parents(self) -> npt.NDArray[np.int32]:
        return self._parents

    @property
    def flushed_at_us(self) -> npt.NDArray[np.uint64]:
        return self._times

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def table(self) -> Table:
        if not self._made:
            self._made.append(self._base.table if not self._added else self._merged())
        return self._made[0]

    def _merged(self) -> Table:
        """In ascending order of id."""
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
        both = Table.concat([self._base.table, new])
        keys = np.ascontiguousarray(both.struct("id").values).view(">u4").reshape(-1, 3)
        order = np.lexsort((keys[:, 2], keys[:, 1], keys[:, 0]))
        return both.take(order).replace(parent_offset=ScalarColumn.of(self._parents, "i4"))

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
        if self.new_row is not None:  # a second one before the first was written
            return SnapshotInfos(self.table).inserted(
                new,
                parent=parent,
                flushed_at_us=flushed_at_us,
                message=message,
                metadata=metadata,
                pruned_logs=pruned_logs,
            )
        row, above = self.place_for(new, parent)
        made = object.__new__(GrowingSnapshots)
        raw = np.frombuffer(new.raw, dtype=np.uint8).reshape(1, -1)
        moved = self._parents + (self._parents >= row).astype(np.int32)
        above += above >= row
        made._become(
            self._base,
            (*self._added, Added(new, flushed_at_us, message, dict(metadata), tuple(pruned_logs))),
            np.concatenate([self._ids[:row], raw, self._ids[row:]]),
            np.concatenate([moved[:row], np.array([above], dtype=np.int32), moved[row:]]),
            np.concatenate(
                [self._times[:row], np.array([flushed_at_us], dtype=np.uint64), self._times[row:]]
            ),
            self.encoded_in,
            row,
        )
        return made, row
