"""Entry points and snapshots of version 2 before its release. See docs/generations.md.

    477d22a4   0 tags  1 branches  2 deleted_tags  3 snapshots  4 spec_version  5 last_updated_at
               6 status  7 metadata
    faaa4b09   0 spec_version  1 tags  2 branches  3 deleted_tags  4 snapshots  5 last_updated_at
               6 status  7 metadata  8 previous_file
    ae1c7d42   the same, with  8, 9 latest_update  10 previous_file
    787cb132   the slots of version 2; until 2026-01-27 the ops log is not (v2pre_updates.py)

Metadata of snapshots is MessagePack until November 2025 and FlexBuffers since; in the files of
snapshots it was MessagePack in August only. Some bytes are both, so that a single value does not
tell: all values of a repository are taken for what they can be together.
"""

from collections.abc import Buffer, Callable, Sequence
from dataclasses import dataclass

from frazil.errors import FormatError
from frazil.flatbuf.columns import StringColumn
from frazil.flatbuf.decode import decode
from frazil.flatbuf.flexbuffers import Json, decode_flexbuffer, encode_flexbuffer
from frazil.flatbuf.schema import (
    Bytes,
    Field,
    Scalar,
    String,
    StringVector,
    SubTable,
    TableSchema,
    TableVector,
)
from frazil.flatbuf.strings import Strings
from frazil.flatbuf.table import Table, TableVectorColumn
from frazil.format.envelope import FileType, decode_envelope
from frazil.format.metadata import decode_msgpack
from frazil.format.nodes import decode_nodes
from frazil.format.repo_info import LogPage, RepoInfo, decode_refs, tag_name
from frazil.format.schemas import METADATA_ITEM, REF, REPO_STATUS, SNAPSHOT, SNAPSHOT_INFO
from frazil.format.snapshot import Snapshot, snapshot_of
from frazil.format.snapshot_infos import SnapshotInfos, sorted_snapshots
from frazil.format.update_log import (
    Availability,
    RepoStatus,
    UndecodedLog,
    UpdateLog,
    decode_status,
)
from frazil.generations.early_v2 import has_short
from frazil.generations.v2pre_updates import (
    KnownRefs,
    decode_early_updates,
    decode_single_update,
)

__all__ = [
    "decode_early_log_page",
    "decode_early_repo_info",
    "decode_early_snapshot",
    "decode_early_values",
    "is_early_repo_info",
]

# No clock showed less when the first of them was written; no clock will show more.
_FIRST_US, _LAST_US = 1_751_000_000_000_000, 4_102_444_800_000_000


@dataclass(frozen=True, slots=True)
class _Form:
    """The slots of one form of the entry point."""

    root: TableSchema
    is_packed: bool  # whether bytes that may be MessagePack and FlexBuffers are the former

    @property
    def has_time(self) -> bool:
        return self.is_packed


def _form(refs: int, status: int, *more: Field, packed: bool) -> _Form:
    fields = (
        Field("tags", refs, TableVector(REF), required=True),
        Field("branches", refs + 1, TableVector(REF), required=True),
        Field("deleted_tags", refs + 2, StringVector(), required=True),
        Field("snapshots", refs + 3, TableVector(SNAPSHOT_INFO), required=True),
        Field("status", status, SubTable(REPO_STATUS)),
        Field("metadata", status + 1, TableVector(METADATA_ITEM)),
    )
    return _Form(TableSchema("Repo", (*fields, *more)), packed)


_TIME = Field("last_updated_at", 5, Scalar("u8"))
_FIRST = _form(0, 6, _TIME, packed=True)
_SECOND = _form(1, 6, _TIME, packed=True)
_THIRD = _form(
    1,
    5,
    Field("repo_before_updates", 8, String()),
    Field("config", 9, Bytes()),
    packed=False,
)
# Slot 9 is there only with an update, of which slot 8 is the type; before it is the previous file.
_PREVIOUS = TableSchema(
    "Repo", (Field("value", 9, Scalar("u4")), Field("previous_file", 10, String()))
)


def is_early_repo_info(data: Buffer, *, max_size: int | None = None) -> bool:
    """True for an entry point that can be read, and that version 2 would not have written so."""
    try:
        payload = decode_envelope(data, FileType.REPO_INFO, max_size=max_size).data
        form, root = _detect_form(payload)
        if form.has_time:
            return True
        decode_early_repo_info(data, max_size=max_size)
        values = root.tables("snapshots").rows.tables("metadata").rows.string("value")
        return has_short(values) or _is_packed(root) or not _has_readable_log(payload)
    except FormatError:
        return False


def _has_readable_log(payload: bytes) -> bool:
    try:
        return UndecodedLog(payload).log is not None
    except FormatError:
        return False


def _is_packed(root: Table) -> bool:
    try:
        for value in root.tables("metadata").rows.string("value").to_list():
            decode_flexbuffer(value or b"")
    except FormatError:
        return True
    return False


def decode_early_repo_info(data: Buffer, *, max_size: int | None = None) -> RepoInfo:
    payload = decode_envelope(data, FileType.REPO_INFO, max_size=max_size).data
    form, root = _detect_form(payload)
    listed, rows = sorted_snapshots(root.tables("snapshots").rows)
    deleted = root.strings("deleted_tags").strings.to_texts()
    page = _page(payload, form, root)
    config = None if form.has_time else root.string("config").item(0)
    snapshots, metadata = _decode_metadata(listed.table, root, packed_first=form.is_packed)
    return RepoInfo(
        spec_version=2,
        tags=decode_refs(root.tables("tags").rows, rows),
        branches=decode_refs(root.tables("branches").rows, rows),
        deleted_tags=tuple(tag_name(text or "") for text in deleted),
        snapshots=snapshots,
        status=_status(root),
        metadata=metadata,
        updates=page.updates,
        before_updates=page.before_updates,
        config=None if config is None else decode_flexbuffer(config),
    )


def decode_early_log_page(data: Buffer, *, max_size: int | None = None) -> LogPage:
    """The part of a backup that a walk through the ops log needs."""
    payload = decode_envelope(data, FileType.REPO_INFO, max_size=max_size).data
    return _page(payload, *_detect_form(payload))


def decode_early_snapshot(
    data: Buffer, stated: dict[str, Json] | None, *, max_size: int | None = None
) -> Snapshot:
    """`stated` is the metadata that the entry point has of it, None if it does not list it."""
    envelope = decode_envelope(data, FileType.SNAPSHOT, max_size=max_size)
    root = decode(envelope.data, SNAPSHOT)
    nodes = decode_nodes(root.tables("nodes").rows)
    found: list[Snapshot] = []
    failure = FormatError("the metadata of a snapshot cannot be read")
    for version in (1,) if envelope.spec_version == 1 else (2, 1):
        try:
            found.append(snapshot_of(root, version, nodes, envelope.data))
        except FormatError as error:
            failure = error
    if not found:
        raise failure
    return next((each for each in found if each.metadata == stated), found[0])


def _detect_form(payload: bytes) -> tuple[_Form, Table]:
    """The form of an entry point, and its root.

    The number 2 in slot 0 can never be an offset: see `decode`.
    """
    for form in (_FIRST, _SECOND):
        try:
            root = decode(payload, form.root)
        except FormatError:
            continue
        if _FIRST_US <= int(root.scalar("last_updated_at").values[0]) < _LAST_US:
            return form, root
    return _THIRD, decode(payload, _THIRD.root)


def _page(payload: bytes, form: _Form, root: Table) -> LogPage:
    refs = KnownRefs(
        branches={name or "" for name in root.tables("branches").rows.string("name").to_texts()},
        tags={name or "" for name in root.tables("tags").rows.string("name").to_texts()},
        deleted_tags={
            tag_name(text or "") for text in root.strings("deleted_tags").strings.to_texts()
        },
    )
    if not form.has_time:
        before = root.string("repo_before_updates").text(0)
        return LogPage(decode_early_updates(payload, refs), before)
    if not decode(payload, TableSchema("Repo", _PREVIOUS.fields[:1])).scalar("value").present[0]:
        return LogPage(UpdateLog.of(()), None)  # before there were updates
    previous = decode(payload, _PREVIOUS).string("previous_file").text(0)
    return LogPage(decode_single_update(payload, refs), previous)


def _status(root: Table) -> RepoStatus:
    status = root.subtable("status")
    row = int(status.index[0])
    if row < 0:
        return RepoStatus(availability=Availability.ONLINE, set_at_us=0, reason=None)
    return decode_status(status.rows, row)


def _decode_metadata(
    table: Table, root: Table, *, packed_first: bool
) -> tuple[SnapshotInfos, dict[str, Json]]:
    """The snapshots with metadata as version 2 has it, and the metadata of the repository."""
    items, own = table.tables("metadata"), root.tables("metadata").rows
    stored = [*items.rows.string("value").to_list(), *own.string("value").to_list()]
    values = decode_early_values([each or b"" for each in stored], packed_first=packed_first)
    count = len(items.rows)
    encoded = Strings.from_list([encode_flexbuffer(value) for value in values[:count]])
    rows = items.rows.replace(value=StringColumn.of(encoded))
    table = table.replace(metadata=TableVectorColumn(items.splits, rows, items.present))
    names = [name or "" for name in own.string("name").to_texts()]
    return SnapshotInfos(table), dict(zip(names, values[count:], strict=True))


def decode_early_values(stored: Sequence[bytes], *, packed_first: bool) -> list[Json]:
    """Values of one repository, in the encoding in which all of them can be read.

    If that is either, `packed_first` decides; if it is neither, each is what it can be.
    """
    decoders = [decode_msgpack, decode_flexbuffer]
    if not packed_first:
        decoders.reverse()
    for decoder in decoders:
        try:
            return [decoder(value) for value in stored]
        except FormatError:
            continue
    return [_decode_either(value, *decoders) for value in stored]


def _decode_either(
    value: bytes, first: Callable[[bytes], Json], second: Callable[[bytes], Json]
) -> Json:
    try:
        return first(value)
    except FormatError:
        return second(value)
