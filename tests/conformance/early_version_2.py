"""Repositories of development versions of version 2, month by month (docs/generations.md).

Each is made of a repository of today: the same chunks and manifests, with the entry point, its ops
log and the snapshots written as they were at the time.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgpack  # type: ignore[import-untyped]  # the package has no type information
import numpy as np

from frazil.engine.files.object_keys import OVERWRITTEN, SNAPSHOTS, backup_name
from frazil.flatbuf.columns import (
    ScalarColumn,
    StringColumn,
    StringVectorColumn,
    StructColumn,
)
from frazil.flatbuf.decode import decode
from frazil.flatbuf.encode import encode_parts
from frazil.flatbuf.flexbuffers import Json, decode_flexbuffer, encode_flexbuffer
from frazil.flatbuf.schema import (
    Field,
    Kind,
    Scalar,
    String,
    StringVector,
    Struct,
    SubTable,
    TableSchema,
    TableVector,
    Union,
)
from frazil.flatbuf.table import Column, SubTableColumn, Table, TableVectorColumn, UnionColumn
from frazil.format.envelope import FileType, decode_envelope, encode_envelope
from frazil.format.metadata import encode_metadata
from frazil.format.repo_info import RepoInfo, decode_repo_info
from frazil.format.schemas import (
    IDENTIFIER,
    METADATA_ITEM,
    REF,
    REPO_STATUS,
    SNAPSHOT,
    SNAPSHOT_INFO,
)
from frazil.format.snapshot import decode_snapshot, encode_snapshot
from frazil.format.update_log import MetadataChanged, Update, number_of
from frazil.objectstore.protocol import ObjectStore

_ID = Struct(12, 1)


@dataclass(frozen=True, slots=True)
class Form:
    """How one month wrote. `numbering` gives the number of an update by its number of today."""

    name: str
    refs: int  # the slot of the tags
    status: int  # the slot of the status
    packed_infos: bool = False  # MessagePack in the entry point
    packed_files: bool = False  # and in snapshot files
    log: str = "none"  # or "single", "many"
    numbering: Callable[[int], int] = int
    says_new: bool = False  # whether commits name their snapshots
    says_previous: bool = True  # whether deletions of tags do
    lists: str = "older"  # of manifests: or "swapped", "newer"
    names_files: bool = False  # deleted tags by the names of their files
    is_current: bool = False  # whether frazil reads it as version 2

    def __str__(self) -> str:
        return self.name


def _until_october(number: int) -> int:
    return number - (number > 4) - (number > 12)


def _until_december(number: int) -> int:
    return number - (number > 4)


FORMS = (
    Form("2025-08, first", refs=0, status=6, packed_infos=True, packed_files=True),
    Form("2025-08", refs=1, status=6, packed_infos=True, packed_files=True, names_files=True),
    Form("2025-09", 1, 6, packed_infos=True, log="single", numbering=_until_october),
    Form("2025-10", 1, 6, packed_infos=True, log="single", numbering=_until_december),
    Form("2025-11", 1, 5, packed_infos=True, log="many", numbering=_until_december),
    Form("2025-11, later", 1, 5, log="many", numbering=_until_december, names_files=True),
    Form("2025-12", 1, 5, log="many", says_previous=False),
    Form("2026-01", 1, 5, log="many"),
    Form("2026-02", 1, 5, log="many", says_new=True, names_files=True, is_current=True),
    Form("2026-03", 1, 5, log="many", says_new=True, lists="swapped", is_current=True),
)


def make_early(store: ObjectStore, form: Form) -> None:
    """Rewrites the repository of version 2 in `store`."""
    info = decode_repo_info(store.get("repo").data)
    updates = [each for each in info.updates if not isinstance(each.kind, MetadataChanged)]
    for listed in list(store.list(SNAPSHOTS)):
        store.put(listed.key, _snapshot_file(bytes(store.get(listed.key).data), form))
    if form.log == "single":  # each file tells of one update, and names the file before it
        previous = None
        for at, update in enumerate(reversed(updates)):
            data = _repo_file(info, form, [update], previous)
            if at + 1 < len(updates):
                previous = backup_name(update.updated_at_us)
                store.put(OVERWRITTEN + previous, data)
            else:
                store.put("repo", data)
    else:
        store.put("repo", _repo_file(info, form, updates, info.before_updates))


def logged(info: RepoInfo, form: Form) -> list[str]:
    """Names of the kinds of updates that the log tells of, newest first."""
    return [] if form.log == "none" else [type(each.kind).__name__ for each in info.updates]


# ---- the entry point -------------------------------------------------------------------------


def _repo_file(info: RepoInfo, form: Form, updates: Sequence[Update], before: str | None) -> bytes:
    fields: list[tuple[str, int, Kind, Column]] = [
        ("tags", form.refs, TableVector(REF), _refs(info.tags)),
        ("branches", form.refs + 1, TableVector(REF), _refs(info.branches)),
        ("deleted_tags", form.refs + 2, StringVector(), _deleted(info, form)),
        ("snapshots", form.refs + 3, TableVector(SNAPSHOT_INFO), _snapshots(info, form)),
        ("status", form.status, SubTable(REPO_STATUS), _status(info)),
        ("metadata", form.status + 1, TableVector(METADATA_ITEM), _metadata(info, form)),
    ]
    if form.refs == 0:
        fields.append(("spec_version", 4, String(), StringColumn.from_list(["2"])))
    else:
        fields.append(("spec_version", 0, Scalar("u1"), ScalarColumn.of([2], "u1")))
    if form.status == 6:
        now_us = info.updates[0].updated_at_us
        fields.append(("last_updated_at", 5, Scalar("u8"), ScalarColumn.of([now_us], "u8")))
    fields += _log_fields(form, updates, before)
    schema = TableSchema("Repo", tuple(Field(name, slot, kind) for name, slot, kind, _ in fields))
    root = Table.build(schema, 1, **{name: column for name, _, _, column in fields})
    return encode_envelope(encode_parts(root, identifier=IDENTIFIER), FileType.REPO_INFO)


def _log_fields(
    form: Form, updates: Sequence[Update], before: str | None
) -> Iterator[tuple[str, int, Kind, Column]]:
    backup = StringColumn.from_list([before])
    match form.log:
        case "none" if form.refs:
            yield "previous_file", 8, String(), StringColumn.from_list(["repo.1.A"])
        case "single":
            kind, union = _union(updates[:1], form)
            yield "latest_update", 8, kind, union
            yield "previous_file", 10, String(), backup
        case "many":
            kind, union = _union(updates, form)
            schema = TableSchema(
                "Update",
                (
                    Field("update_type", 0, kind),
                    Field("updated_at", 2, Scalar("u8")),
                    Field("backup_path", 3, String()),
                ),
            )
            times = [each.updated_at_us for each in updates]
            rows = Table.build(
                schema,
                len(updates),
                update_type=union,
                updated_at=ScalarColumn.of(times, "u8"),
                backup_path=StringColumn.from_list([each.backup_path for each in updates]),
            )
            yield "latest_updates", 7, TableVector(schema), TableVectorColumn.of(rows)
            yield "repo_before_updates", 8, String(), backup


def _union(updates: Sequence[Update], form: Form) -> tuple[Union, UnionColumn]:
    numbers = [form.numbering(number_of(each.kind)) for each in updates]
    variants = {}
    index = np.zeros(len(updates), np.int64)
    for number in sorted(set(numbers)):
        rows = [at for at, each in enumerate(numbers) if each == number]
        index[rows] = np.arange(len(rows))
        variants[number] = _entries([updates[at].kind for at in rows], form)
    schemas = {number: table.schema for number, table in variants.items()}
    return Union(schemas), UnionColumn(np.array(numbers, np.uint8), index, variants)


def _entries(kinds: Sequence[Any], form: Form) -> Table:
    """Entries of one kind, without what the month did not say."""
    sort = type(kinds[0]).__name__
    columns: dict[str, tuple[Kind, Column]] = {}
    for name in ("name", "branch"):
        if hasattr(kinds[0], name):
            texts = StringColumn.from_list([getattr(each, name) for each in kinds])
            columns[name] = String(), texts
    if hasattr(kinds[0], "previous") and (form.says_previous or sort != "TagDeleted"):
        columns["previous"] = _ID, _ids([each.previous.raw for each in kinds])
    if hasattr(kinds[0], "new") and (form.says_new or sort == "NewDetachedSnapshot"):
        columns["new"] = _ID, _ids([each.new.raw for each in kinds])
    fields = [Field(name, slot, kind) for slot, (name, (kind, _)) in enumerate(columns.items())]
    schema = TableSchema(sort, tuple(fields))
    return Table.build(schema, len(kinds), **{name: each for name, (_, each) in columns.items()})


def _ids(raw: Sequence[bytes]) -> StructColumn:
    return StructColumn.of(np.frombuffer(b"".join(raw), np.uint8).reshape(-1, 12))


def _refs(refs: Mapping[str, int]) -> TableVectorColumn:
    names = sorted(refs, key=str.encode)
    rows = ScalarColumn.of([refs[name] for name in names], "u4")
    return TableVectorColumn.of(
        Table.build(REF, len(names), name=StringColumn.from_list(names), snapshot_index=rows)
    )


def _deleted(info: RepoInfo, form: Form) -> StringVectorColumn:
    text = "tag.{}/ref.json.deleted" if form.names_files else "{}"
    return StringVectorColumn.from_lists(
        [[text.format(name).encode() for name in info.deleted_tags]]
    )


def _snapshots(info: RepoInfo, form: Form) -> TableVectorColumn:
    table = info.snapshots.table
    items = table.tables("metadata")
    rows = _encoded(items.rows, packed=form.packed_infos)
    return TableVectorColumn.of(
        table.replace(metadata=TableVectorColumn(items.splits, rows, items.present))
    )


def _metadata(info: RepoInfo, form: Form) -> TableVectorColumn:
    return TableVectorColumn.of(_encoded(encode_metadata(info.metadata), packed=form.packed_infos))


def _encoded(items: Table, *, packed: bool) -> Table:
    """Items of today with their values as MessagePack, if they were."""
    values = [decode_flexbuffer(value or b"") for value in items.string("value").to_list()]
    stored = [pack(value) if packed else encode_flexbuffer(value) for value in values]
    return items.replace(value=StringColumn.from_list(stored))


def pack(value: Json) -> bytes:
    packed: bytes = msgpack.packb(value)
    return packed


def _status(info: RepoInfo) -> SubTableColumn:
    status = info.status
    return SubTableColumn.of(
        Table.build(
            REPO_STATUS,
            1,
            availability=ScalarColumn.of([int(status.availability)], "u1"),
            set_at=ScalarColumn.of([status.set_at_us], "u8"),
            limited_availability_reason=StringColumn.from_list([status.reason]),
        )
    )


# ---- snapshots -------------------------------------------------------------------------------


def _snapshot_file(data: bytes, form: Form) -> bytes:
    """A file of version 2 by its header, with shapes and lists of version 1 until March 2026."""
    snapshot = decode_snapshot(data)
    if form.lists == "swapped":
        root = decode(decode_envelope(data, FileType.SNAPSHOT).data, SNAPSHOT)
        schema = TableSchema(
            "Snapshot",
            tuple(
                replace(field, slot=8) if field.name == "manifest_files_v2" else field
                for field in SNAPSHOT.fields
            ),
        )
        root = Table.build(schema, 1, **root.columns)
    else:
        older = encode_snapshot(replace(snapshot, parent_id=None), spec_version=1)
        root = decode(decode_envelope(older, FileType.SNAPSHOT).data, SNAPSHOT)
        if not form.packed_files:
            root = root.replace(metadata=TableVectorColumn.of(encode_metadata(snapshot.metadata)))
    return encode_envelope(
        encode_parts(root, identifier=IDENTIFIER), FileType.SNAPSHOT, spec_version=2
    )
