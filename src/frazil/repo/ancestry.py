"""A history in blocks of snapshots, each of which is a few columns.

Ten thousand snapshots are listed in the time that a hundred would take one by one; and whoever
only wants the newest few pays for a small block.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

import numpy as np

from frazil.flatbuf.flexbuffers import Json
from frazil.format.metadata import decode_metadata_of
from frazil.format.repo_info import RepoInfo
from frazil.format.snapshot_infos import SnapshotInfos
from frazil.ids import format_ids
from frazil.repo.history import SnapshotRecord, ancestor_rows, record_at
from frazil.repo.snapshot_chain import SnapshotChain

_SMALL, _LARGE, _GROWTH = 16, 4096, 4  # snapshots of a block: the first, at most, the next


@dataclass(frozen=True, slots=True)
class SnapshotList:
    """Snapshots whose particulars are all at hand."""

    ids: list[str]
    parent_ids: list[str | None]
    flushed_at_us: list[int]
    messages: list[str]
    metadata: list[dict[str, Json]]

    @classmethod
    def of(cls, *records: SnapshotRecord) -> "SnapshotList":
        return cls(
            ids=[str(record.id) for record in records],
            parent_ids=[
                None if record.parent_id is None else str(record.parent_id) for record in records
            ],
            flushed_at_us=[record.flushed_at_us for record in records],
            messages=[record.message for record in records],
            metadata=[record.metadata for record in records],
        )


class SnapshotColumns:
    """Rows of a repo info, each the parent of the one before it.

    A column is worked out when somebody first asks for it.
    """

    def __init__(self, snapshots: SnapshotInfos, rows: list[int]) -> None:
        self._snapshots = snapshots
        self._rows = np.array(rows, dtype=np.int64)

    @cached_property
    def ids(self) -> list[str]:
        return format_ids(self._snapshots.ids[self._rows])

    @cached_property
    def parent_ids(self) -> list[str | None]:
        above = self._snapshots.parent(int(self._rows[-1]))
        return [*self.ids[1:], None if above < 0 else str(self._snapshots.id(above))]

    @cached_property
    def flushed_at_us(self) -> list[int]:
        times: list[int] = self._snapshots.flushed_at_us[self._rows].tolist()
        return times

    @cached_property
    def messages(self) -> list[str]:
        texts = self._snapshots.table.string("message").take(self._rows).pruned().to_texts()
        return [text or "" for text in texts]

    @cached_property
    def metadata(self) -> list[dict[str, Json]]:
        return decode_metadata_of(self._snapshots.table.tables("metadata").take(self._rows))

    def records(self) -> Iterator[SnapshotRecord]:
        for at, row in enumerate(self._rows.tolist()):
            above = self._snapshots.parent(row)
            yield SnapshotRecord(
                id=self._snapshots.id(row),
                parent_id=None if above < 0 else self._snapshots.id(above),
                flushed_at_us=self.flushed_at_us[at],
                message=self.messages[at],
                metadata=self.metadata[at],
            )


type SnapshotBlock = SnapshotList | SnapshotColumns


def ancestor_blocks(info: RepoInfo, row: int) -> Iterator[tuple[SnapshotBlock, int]]:
    """`row`, its parent, and so on to the root, in blocks, with the size of each."""
    rows, size = ancestor_rows(info, row), _SMALL
    while found := list(islice(rows, size)):
        if isinstance(info.snapshots, SnapshotChain):  # has no columns: each is a file
            yield SnapshotList.of(*(record_at(info, one) for one in found)), len(found)
        else:
            yield SnapshotColumns(info.snapshots, found), len(found)
            size = min(size * _GROWTH, _LARGE)


def ancestors(info: RepoInfo, row: int) -> Iterator[SnapshotRecord]:
    """The same, one by one."""
    if isinstance(info.snapshots, SnapshotChain):
        yield from (record_at(info, one) for one in ancestor_rows(info, row))
        return
    for block, _ in ancestor_blocks(info, row):
        if isinstance(block, SnapshotColumns):
            yield from block.records()
