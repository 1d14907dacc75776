"""Refs and history in the entry point of version 2 before November 2025. FORMATS: 7.

    477d22a4   0 tags  1 branches  2 deleted_tags  3 snapshots  4 spec_version  5 last_updated_at
    faaa4b09   0 spec_version  1 tags  2 branches  3 deleted_tags  4 snapshots  5 last_updated_at

Version 2 has its status where these have a time, so that nobody takes one for the other. Later ones
than these differ in the ops log only, and are read as version 2.
"""

from collections.abc import Buffer

from frazil.errors import FormatError
from frazil.flatbuf.decode import decode
from frazil.flatbuf.schema import Field, Scalar, StringVector, TableSchema, TableVector
from frazil.format.envelope import FileType, decode_envelope
from frazil.format.repo_info import (
    Availability,
    RepoInfo,
    RepoStatus,
    decode_refs,
    sorted_snapshots,
)
from frazil.format.schemas import REF, SNAPSHOT_INFO

# From the first commit of this form to half a year after the last: clocks may be wrong.
_FIRST_US, _LAST_US = 1_751_000_000_000_000, 1_780_000_000_000_000
_TIME = TableSchema("Repo", (Field("last_updated_at", 5, Scalar("u8")),))
_DELETED = ("tag.", "/ref.json.deleted")  # around the names of tags deleted before a migration


def _refs_from(slot: int) -> TableSchema:
    return TableSchema(
        "Repo",
        (
            Field("tags", slot, TableVector(REF), required=True),
            Field("branches", slot + 1, TableVector(REF), required=True),
            Field("deleted_tags", slot + 2, StringVector(), required=True),
            Field("snapshots", slot + 3, TableVector(SNAPSHOT_INFO), required=True),
        ),
    )


_LATER, _FIRST = _refs_from(1), _refs_from(0)


def is_early_repo_info(data: Buffer, *, max_size: int | None = None) -> bool:
    try:
        content = decode_envelope(data, FileType.REPO_INFO, max_size=max_size).data
        moment = int(decode(content, _TIME).scalar("last_updated_at").values[0])
    except FormatError:
        return False
    return _FIRST_US <= moment <= _LAST_US


def decode_early_repo_info(data: Buffer, *, max_size: int | None = None) -> RepoInfo:
    content = decode_envelope(data, FileType.REPO_INFO, max_size=max_size).data
    try:
        root = decode(content, _LATER)
    except FormatError:
        root = decode(content, _FIRST)
    snapshots, rows = sorted_snapshots(root.tables("snapshots").rows)
    deleted = root.strings("deleted_tags").strings.to_texts()
    return RepoInfo(
        spec_version=2,
        tags=decode_refs(root.tables("tags").rows, rows),
        branches=decode_refs(root.tables("branches").rows, rows),
        deleted_tags=tuple(_tag_name(text or "") for text in deleted),
        snapshots=snapshots,
        status=RepoStatus(availability=Availability.ONLINE, set_at_us=0, reason=None),
        metadata={},
        updates=(),
    )


def _tag_name(text: str) -> str:
    start, stop = _DELETED
    if text.startswith(start) and text.endswith(stop):
        return text.removeprefix(start).removesuffix(stop)
    return text
