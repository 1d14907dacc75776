"""The entry point of a repository, its only file that changes. Spec: "Repo Info File"."""

from bisect import bisect_left
from collections.abc import Buffer, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from frazil.errors import FormatError
from frazil.flatbuf.columns import (
    ScalarColumn,
    StringColumn,
    StringVectorColumn,
    StructColumn,
    VectorColumn,
)
from frazil.flatbuf.decode import decode
from frazil.flatbuf.decode_row import prepare
from frazil.flatbuf.encode import encode_parts
from frazil.flatbuf.flexbuffers import Json, decode_flexbuffer, encode_flexbuffer
from frazil.flatbuf.table import SubTableColumn, Table, TableVectorColumn
from frazil.format.envelope import FileType, decode_envelope, encode_envelope
from frazil.format.metadata import decode_metadata, encode_metadata
from frazil.format.nodes import id_column
from frazil.format.schemas import IDENTIFIER, REF, REPO, REPO_LOG, REPO_STATE, SNAPSHOT_INFO
from frazil.format.update_log import UndecodedLog, UpdateLog, decode_status, encode_status
from frazil.format.updates import Availability, RepoStatus, Update
from frazil.ids import SnapshotId

__all__ = [
    "Availability",
    "LogPage",
    "RepoInfo",
    "RepoStatus",
    "SnapshotInfos",
    "Update",
    "decode_log_page",
    "decode_refs",
    "decode_repo_info",
    "encode_repo_info",
    "sorted_snapshots",
    "tag_name",
]

_DELETED = ("tag.", "/ref.json.deleted")  # a tag's own name never has a slash
_MAX_ROWS = 2**31 - 1  # parents are counted in 32 bits with a sign


# Tables of no rows are made once; on import, so that the first file of a process need not wait.
Table.empty(REPO_STATE)
prepare(REPO_STATE)


@dataclass(frozen=True, slots=True, eq=False)
class SnapshotInfos:
    """What the repository knows of its snapshots without opening them, in ascending order of id."""

    table: Table  # SNAPSHOT_INFO

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


@dataclass(frozen=True, slots=True, eq=False)
class RepoInfo:
    """Branches and tags are rows of `snapshots` by name. `updates` is newest first."""

    spec_version: int
    tags: dict[str, int]
    branches: dict[str, int]
    deleted_tags: Sequence[str]
    snapshots: SnapshotInfos
    status: RepoStatus
    metadata: dict[str, Json]
    updates: Sequence[Update]
    before_updates: str | None = None
    config: Json | None = None
    enabled_flags: tuple[int, ...] = ()
    disabled_flags: tuple[int, ...] = ()

    @property
    def lists_snapshots(self) -> bool:
        """True if `snapshots` are all that are stored; before version 2 refs alone are known."""
        return self.spec_version >= 2

    def snapshot_of_branch(self, name: str) -> SnapshotId | None:
        row = self.branches.get(name)
        return None if row is None else self.snapshots.id(row)

    def snapshot_of_tag(self, name: str) -> SnapshotId | None:
        row = self.tags.get(name)
        return None if row is None else self.snapshots.id(row)

    def with_snapshot(
        self,
        new: SnapshotId,
        parent: SnapshotId | None,
        flushed_at_us: int,
        message: str,
        metadata: Mapping[str, Json],
        *,
        pruned_logs: Sequence[bytes] = (),
    ) -> "RepoInfo":
        snapshots, row = self.snapshots.inserted(
            new,
            parent=parent,
            flushed_at_us=flushed_at_us,
            message=message,
            metadata=metadata,
            pruned_logs=pruned_logs,
        )
        return replace(
            self,
            snapshots=snapshots,
            tags=snapshots.shift_refs(self.tags, row),
            branches=snapshots.shift_refs(self.branches, row),
        )

    def with_branch(self, name: str, snapshot: SnapshotId) -> "RepoInfo":
        """A new branch, or an old one moved."""
        return replace(self, branches=self.branches | {name: self._require_row(snapshot)})

    def without_branch(self, name: str) -> "RepoInfo":
        return replace(self, branches=_without(self.branches, name))

    def with_tag(self, name: str, snapshot: SnapshotId) -> "RepoInfo":
        return replace(self, tags=self.tags | {name: self._require_row(snapshot)})

    def without_tag(self, name: str) -> "RepoInfo":
        """The name is remembered as deleted, and cannot be given again."""
        deleted = tuple(sorted({*self.deleted_tags, name}, key=str.encode))
        return replace(self, tags=_without(self.tags, name), deleted_tags=deleted)

    def _require_row(self, snapshot: SnapshotId) -> int:
        row = self.snapshots.find(snapshot)
        if row < 0:
            raise FormatError(f"snapshot {snapshot} is not listed")
        return row


@dataclass(frozen=True, slots=True, eq=False)
class LogPage:
    """What one file holds of the ops log, newest first, and the file that goes on with it."""

    updates: UpdateLog
    before_updates: str | None


def _without(refs: dict[str, int], name: str) -> dict[str, int]:
    return {other: row for other, row in refs.items() if other != name}


def decode_repo_info(data: Buffer, *, max_size: int | None = None) -> RepoInfo:
    envelope = decode_envelope(data, FileType.REPO_INFO, max_size=max_size)
    root = decode(envelope.data, REPO_STATE)
    snapshots, new_rows = sorted_snapshots(root.tables("snapshots").rows)
    status = root.subtable("status")
    config = root.string("config").item(0)
    return RepoInfo(
        spec_version=int(root.scalar("spec_version").values[0]),
        tags=decode_refs(root.tables("tags").rows, new_rows),
        branches=decode_refs(root.tables("branches").rows, new_rows),
        deleted_tags=tuple(
            tag_name(text or "") for text in root.strings("deleted_tags").strings.to_texts()
        ),
        snapshots=snapshots,
        status=decode_status(status.rows, int(status.index[0])),
        metadata=decode_metadata(root.tables("metadata").rows),
        updates=UndecodedLog(envelope.data),
        before_updates=root.string("repo_before_updates").text(0),
        config=None if config is None else decode_flexbuffer(config),
        enabled_flags=tuple(root.vector("enabled_feature_flags").values.tolist()),
        disabled_flags=tuple(root.vector("disabled_feature_flags").values.tolist()),
    )


def tag_name(text: str) -> str:
    """The name of a deleted tag; migrations before March 2026 recorded the name of its file."""
    start, stop = _DELETED
    if text.startswith(start) and text.endswith(stop):
        return text.removeprefix(start).removesuffix(stop)
    return text


def decode_log_page(data: Buffer, *, max_size: int | None = None) -> LogPage:
    """As much of a repo info as a walk through the ops log needs."""
    envelope = decode_envelope(data, FileType.REPO_INFO, max_size=max_size)
    root = decode(envelope.data, REPO_LOG)
    return LogPage(
        updates=UpdateLog(root.tables("latest_updates").rows),
        before_updates=root.string("repo_before_updates").text(0),
    )


def encode_repo_info(info: RepoInfo, *, level: int = 3) -> bytes:
    root = repo_table(info, info.snapshots.table, UpdateLog.of(info.updates).table)
    return encode_envelope(
        encode_parts(root, identifier=IDENTIFIER), FileType.REPO_INFO, level=level
    )


def repo_table(info: RepoInfo, snapshots: Table, updates: Table) -> Table:
    """The root, with these rows instead of its own."""
    config = None if info.config is None else encode_flexbuffer(info.config)
    deleted = sorted(name.encode() for name in info.deleted_tags)
    return Table.build(
        REPO,
        1,
        spec_version=ScalarColumn.of([info.spec_version], "u1"),
        tags=_encode_refs(info.tags),
        branches=_encode_refs(info.branches),
        deleted_tags=StringVectorColumn.from_lists([deleted]),
        snapshots=TableVectorColumn.of(snapshots),
        status=SubTableColumn.of(encode_status([info.status])),
        metadata=TableVectorColumn.of(encode_metadata(info.metadata)),
        latest_updates=TableVectorColumn.of(updates),
        repo_before_updates=StringColumn.from_list([info.before_updates]),
        config=StringColumn.from_list([config]),
        enabled_feature_flags=_encode_flags(info.enabled_flags),
        disabled_feature_flags=_encode_flags(info.disabled_flags),
    )


def sorted_snapshots(table: Table) -> tuple[SnapshotInfos, npt.NDArray[np.int64]]:
    """Snapshots in order of id, whatever the file's order, and the new row of each old one."""
    parents = table.scalar("parent_offset").values
    if len(parents) and not (int(parents.min()) >= -1 and int(parents.max()) < len(parents)):
        raise FormatError("a snapshot's parent is not listed")
    every = np.arange(len(table), dtype=np.int64)
    high, low = _numbers_of_ids(table.struct("id").values)
    if bool((high[1:] > high[:-1]).all()):  # as everybody writes them
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


def decode_refs(refs: Table, new_rows: npt.NDArray[np.int64]) -> dict[str, int]:
    names = refs.string("name").to_texts()
    rows = refs.scalar("snapshot_index").values
    if len(rows) and int(rows.max()) >= len(new_rows):
        raise FormatError("a branch or tag points to a snapshot that is not listed")
    return dict(zip((name or "" for name in names), new_rows[rows].tolist(), strict=True))


def _encode_refs(refs: Mapping[str, int]) -> TableVectorColumn:
    """Sorted by the bytes of the name: others find them by bisection."""
    items = sorted((name.encode(), row) for name, row in refs.items())
    table = Table.build(
        REF,
        len(items),
        name=StringColumn.from_list([name for name, _ in items]),
        snapshot_index=ScalarColumn.of([row for _, row in items], "u4"),
    )
    return TableVectorColumn.of(table)


def _encode_logs(ids: Sequence[bytes]) -> VectorColumn:
    """Of one snapshot; absent if there are none."""
    values = id_column(ids, SnapshotId.size)
    return VectorColumn(values, np.array([0, len(ids)]), np.array([len(ids) > 0]))


def _encode_flags(flags: Iterable[int]) -> VectorColumn:
    """Absent if there are none."""
    values = np.array(sorted(flags), dtype=np.uint16)
    return VectorColumn(values, np.array([0, len(values)]), np.array([len(values) > 0]))
