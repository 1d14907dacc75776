"""Walks through the snapshots that the repo info lists. No I/O: parents are a column.

Long histories come in blocks, each of which is a few columns: ten thousand snapshots are listed in
the time that a hundred would take one by one, and a caller that wants only the newest few pays for
a small block.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice

import numpy as np
import numpy.typing as npt

from frazil.clock import to_datetime
from frazil.dataclass import dataclass
from frazil.engine.refs.commit_metadata import merged_snapshots
from frazil.errors import (
    ConflictError,
    FormatError,
    InvalidInputError,
    ObjectNotFoundError,
    RefNotFoundError,
    SnapshotNotFoundError,
    require_type,
)
from frazil.flatbuf.columns import ScalarColumn, StringColumn, StructColumn
from frazil.flatbuf.flexbuffers import Json
from frazil.flatbuf.table import Table
from frazil.format.metadata import decode_metadata_of, encode_metadata_of
from frazil.format.nodes import id_column
from frazil.format.repo_info import RepoInfo
from frazil.format.schemas import SNAPSHOT_INFO
from frazil.format.snapshot import SnapshotHead
from frazil.format.snapshot_infos import SnapshotInfos
from frazil.ids import SnapshotId, format_ids

# Snapshots of a version 1 repository, which are listed nowhere: each names its parent.
#
# Rows are given out as snapshots become known, and a snapshot's file is read when its contents are
# needed. So a commit looks at one file, however long the history is.

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
        ids, rows = self._ids[: len(heads)], self._rows
        parents = [-1 if (up := head.parent_id) is None else rows[up] for head in heads]
        times = [head.flushed_at_us for head in heads]
        return Table.build(
            SNAPSHOT_INFO,
            len(heads),
            id=StructColumn.of(id_column([each.raw for each in ids], SnapshotId.size)),
            parent_offset=ScalarColumn.of(np.array(parents, dtype=np.int32), "i4"),
            flushed_at=ScalarColumn.of(np.array(times, dtype=np.uint64), "u8"),
            message=StringColumn.from_list([head.message for head in heads]),
            metadata=encode_metadata_of([head.metadata for head in heads]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRecord:
    """One snapshot as the repo info lists it."""

    id: SnapshotId
    parent_id: SnapshotId | None
    flushed_at_us: int
    message: str
    metadata: dict[str, Json]


def require_row(info: RepoInfo, snapshot: SnapshotId) -> int:
    row = info.snapshots.find(snapshot)
    if row < 0:
        raise SnapshotNotFoundError(f"snapshot id not found `{snapshot}`")
    return row


def branch_row(info: RepoInfo, name: str, *, kind: str = "ref-not-found") -> int:
    require_type(name, str)
    try:
        return info.branches[name]
    except RefNotFoundError:  # version 1 has its own
        raise
    except KeyError:
        what = "branch" if kind == "branch-not-found" else "ref"
        raise RefNotFoundError(f"{what} not found `{name}`", kind=kind) from None


def tag_row(info: RepoInfo, name: str) -> int:
    require_type(name, str)
    try:
        return info.tags[name]
    except RefNotFoundError:
        raise
    except KeyError:
        raise RefNotFoundError(f"ref not found `{name}`") from None


def ancestor_rows(info: RepoInfo, row: int) -> Iterator[int]:
    """`row`, its parent, and so on to the root."""
    return info.snapshots.ancestors(row)


def log_ids_between(info: RepoInfo, start: int, end: int) -> list[SnapshotId]:
    """Transaction logs that lead from row `start` to its descendant `end`, newest first.

    Where history was expired, the logs of the vanished snapshots are named by their successor.
    """
    logs: list[SnapshotId] = []
    for row in ancestor_rows(info, end):
        if row == start and logs:
            return logs
        logs.append(snapshot_id(info, row))
        logs += [SnapshotId(raw) for raw in reversed(info.snapshots.pruned_logs(row))]
    raise InvalidInputError(
        "`to` snapshot ancestry doesn't include `from`", kind="bad-snapshot-chain-for-diff"
    )


def logs_apart(info: RepoInfo, base: SnapshotId, branch: str) -> tuple[SnapshotId, ...]:
    """Logs of `base` and of the branch's tip since the snapshot that both come from.

    Those of `base` come first, each side oldest first. Raises ConflictError if there is none.
    """
    tip, start = info.branches[branch], info.snapshots.find(base)
    known = set[int]() if start < 0 else set(ancestor_rows(info, start))
    common = next((row for row in ancestor_rows(info, tip) if row in known), None)
    if common is None:
        raise ConflictError(
            message=f"cannot rebase: branch `{branch}` and snapshot {base} have no history in"
            " common",
            expected_parent=str(base),
            actual_parent=str(snapshot_id(info, tip)),
        )
    sides = [log_ids_between(info, common, row) for row in (start, tip) if row != common]
    return tuple(log for side in sides for log in reversed(side))


def row_as_of(info: RepoInfo, branch: str, when_us: int) -> int:
    """The newest ancestor of the branch's tip that was there at `when_us`."""
    for row in ancestor_rows(info, branch_row(info, branch, kind="branch-not-found")):
        if info.snapshots.flushed_at(row) <= when_us:
            return row
    raise SnapshotNotFoundError(
        f"branch {branch} does not have a snapshots before or at {to_datetime(when_us)}",
        kind="no-snapshot-at-time",
    )


def snapshot_id(info: RepoInfo, row: int) -> SnapshotId:
    return info.snapshots.id(row)


def record_at(info: RepoInfo, row: int) -> SnapshotRecord:
    snapshots = info.snapshots
    parent = snapshots.parent(row)
    return SnapshotRecord(
        id=snapshot_id(info, row),
        parent_id=None if parent < 0 else snapshot_id(info, parent),
        flushed_at_us=snapshots.flushed_at(row),
        message=snapshots.message(row),
        metadata=snapshots.metadata(row),
    )


_SMALL, _LARGE, _GROWTH = 16, 4096, 4  # snapshots of a block: the first, at most, the next


@dataclass(frozen=True, slots=True)
class SnapshotList:
    """Snapshots whose fields are all in memory."""

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

    A column is decoded when it is first used.
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


def merge_base(info: RepoInfo, one: int, other: int) -> int | None:
    """Row of the newest snapshot whose changes are in both histories; None if there is none."""
    common = reachable_rows(info, one) & reachable_rows(info, other)
    return max(common, key=info.snapshots.flushed_at, default=None)


def reachable_rows(info: RepoInfo, row: int) -> set[int]:
    """The snapshot and all that went into it, by parents and by merges."""
    found, todo = set[int](), [row]
    while todo:
        at = todo.pop()
        if at < 0 or at in found:
            continue
        found.add(at)
        todo.append(info.snapshots.parent(at))
        todo += [_find(info, each) for each in merged_snapshots(info.snapshots.metadata(at))]
    return found


def _find(info: RepoInfo, snapshot: SnapshotId) -> int:
    """Its row, -1 if it is gone: a note keeps no snapshot from being collected."""
    try:
        return info.snapshots.find(snapshot)
    except ObjectNotFoundError:  # version 1 has no list to look into
        return -1
