"""Ops logs of version 2 before its release: other numbers, no ids (docs/generations.md).

    until 2025-10-02   4 TagCreated .. 10 CommitAmended, 11 GCRan, 12 ExpirationRan
    until 2025-12-03   the same with 11 NewDetachedSnapshot; 12 GCRan, 13 ExpirationRan
    until 2026-01-27   the numbers of today; a commit does not name its snapshot

Nothing in a file says which of them holds. What an entry must have, and which branches and tags
there are, tells them apart: the numbers that contradict the least are taken.
"""

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from frazil.errors import FormatError
from frazil.flatbuf.columns import StringColumn
from frazil.flatbuf.decode import decode
from frazil.flatbuf.schema import Field, Scalar, Struct, TableSchema, TableVector, Union
from frazil.flatbuf.table import Column, Table, UnionColumn
from frazil.format.schemas import UPDATE, UPDATE_KINDS
from frazil.format.update_log import (
    BranchCreated,
    BranchDeleted,
    BranchReset,
    CommitAmended,
    NewCommit,
    TagCreated,
    TagDeleted,
    Update,
    UpdateLog,
    encode_updates,
)
from frazil.generations.early_v2 import UPDATES

__all__ = ["KnownRefs", "decode_early_updates", "decode_single_update"]

_TODAY = {number: number for number in UPDATE_KINDS}
_WITHOUT_METADATA = {number: number + (number > 3) for number in range(1, 14)}
_WITHOUT_DETACHED = {number: number + (number > 3) + (number > 10) for number in range(1, 13)}
_NUMBERINGS: tuple[Mapping[int, int], ...] = (_TODAY, _WITHOUT_METADATA, _WITHOUT_DETACHED)
_TAG_DELETED = 6


@dataclass(frozen=True, slots=True)
class KnownRefs:
    """Names that the entry point has besides its log."""

    branches: AbstractSet[str]
    tags: AbstractSet[str]
    deleted_tags: AbstractSet[str]


def _lenient_schema(number: int) -> TableSchema:
    """A kind of today of which ids may be missing, with a look at slots that it does not have."""
    kind = UPDATE_KINDS[number]
    fields = [
        replace(field, required=field.slot == 0) if isinstance(field.kind, Struct) else field
        for field in kind.fields
    ]
    beyond = max((field.slot + 1 for field in fields), default=0)
    return TableSchema(kind.name, (*fields, Field("beyond", beyond, Scalar("u1"))))


def _union(numbering: Mapping[int, int]) -> Union:
    return Union({stored: _lenient_schema(number) for stored, number in numbering.items()})


_LOGS = [
    TableSchema(
        "Repo",
        (
            Field(
                "latest_updates",
                UPDATES,
                TableVector(
                    TableSchema(
                        "Update",
                        (Field("update_type", 0, _union(each), required=True), *UPDATE.fields[1:]),
                    )
                ),
                required=True,
            ),
        ),
    )
    for each in _NUMBERINGS
]
_SINGLE = [
    TableSchema("Repo", (Field("update_type", 8, _union(each)), Field("at", 5, Scalar("u8"))))
    for each in _NUMBERINGS[1:]
]


def decode_early_updates(payload: bytes, refs: KnownRefs) -> UpdateLog:
    """Newest first. Ids that entries lack are all zeros."""
    found: list[tuple[int, Table]] = []
    failure = FormatError("the ops log cannot be read")
    for schema, numbering in zip(_LOGS, _NUMBERINGS, strict=True):
        try:
            rows = decode(payload, schema).tables("latest_updates").rows
            union = _renumber(rows.union("update_type"), numbering)
            columns = MappingProxyType({**rows.columns, "update_type": union})
            read = Table(UPDATE, len(rows), columns)
            updates = list(UpdateLog(read))
        except FormatError as error:
            failure = error
            continue
        contradictions = _contradictions(union, numbering) + _unknown_names(updates, refs)
        found.append((contradictions, encode_updates(updates)))
    if not found:
        raise failure
    return UpdateLog(min(found, key=lambda pair: pair[0])[1])


def decode_single_update(payload: bytes, refs: KnownRefs) -> UpdateLog:
    """The one update that a file of October 2025 tells of; none before."""
    found: list[tuple[int, list[Update]]] = []
    for schema, numbering in zip(_SINGLE, _NUMBERINGS[1:], strict=True):
        root = decode(payload, schema)
        union = _renumber(root.union("update_type"), numbering)
        if not union.types[0]:
            return UpdateLog.of(())
        backup = StringColumn.absent(1)
        columns: dict[str, Column] = {
            "update_type": union,
            "updated_at": root.scalar("at"),
            "backup_path": backup,
        }
        row = Table(UPDATE, 1, MappingProxyType(columns))
        try:
            updates = list(UpdateLog(row))
        except FormatError:
            continue
        contradictions = _contradictions(union, numbering) + _unknown_names(updates, refs)
        found.append((contradictions, updates))
    return UpdateLog.of(min(found, key=lambda pair: pair[0])[1] if found else ())


def _renumber(union: UnionColumn, numbering: Mapping[int, int]) -> UnionColumn:
    """The same entries under today's numbers; one of an unknown number raises FormatError."""
    numbers = np.zeros(256, np.uint8)
    for stored, number in numbering.items():
        numbers[stored] = number
    if bool(((union.types > 0) & (numbers[union.types] == 0)).any()):
        raise FormatError("the ops log has an update of unknown type")
    variants = {
        number: union.variants.get(stored, Table.empty(_lenient_schema(number)))
        for stored, number in numbering.items()
    }
    every = {number: Table.empty(_lenient_schema(number)) for number in UPDATE_KINDS} | variants
    return UnionColumn(numbers[union.types], union.index, every)


def _contradictions(union: UnionColumn, numbering: Mapping[int, int]) -> int:
    """Counts the slots that contradict the kinds of their entries."""
    total = 0
    for number, table in union.variants.items():
        total += 10 * int(np.count_nonzero(table["beyond"].present))
        for field in UPDATE_KINDS[number].fields:
            present = table[field.name].present
            if field.name == "previous_snap_id":
                weight = 1 if number == _TAG_DELETED else 5
                total += weight * int(np.count_nonzero(~present))
            elif field.name == "new_snap_id" and field.slot and numbering is not _TODAY:
                total += 5 * int(np.count_nonzero(present))
    return total


def _unknown_names(updates: Iterable[Update], refs: KnownRefs) -> int:
    """Counts the entries about branches and tags that never existed."""
    updates = list(updates)
    gone = {each.kind.name for each in updates if isinstance(each.kind, BranchDeleted)}
    branches, tags = refs.branches | gone, refs.tags | refs.deleted_tags
    return 2 * sum(
        name not in (tags if is_tag else branches) for name, is_tag in _names(updates, refs)
    )


def _names(updates: Iterable[Update], refs: KnownRefs) -> Iterator[tuple[str, bool]]:
    for update in updates:
        match update.kind:
            case TagCreated(name):
                yield name, True
            case TagDeleted(name):
                yield ("" if name not in refs.deleted_tags else name), True
            case BranchCreated(name) | BranchDeleted(name) | BranchReset(name):
                yield name, False
            case NewCommit(branch) | CommitAmended(branch):
                yield branch, False
