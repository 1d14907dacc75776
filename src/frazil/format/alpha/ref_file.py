"""Branches and tags before version 1: small JSON files with the id of a snapshot. FORMATS: 4.1.

    A1a, A1b   {"snapshot": id, "timestamp": time, "properties": {...}}
    A1c ..     {"snapshot": id}

Ids are base 32; in the document alpha1 they are lists of 16 numbers.
"""

import binascii
import json
from base64 import urlsafe_b64decode
from collections.abc import Buffer
from dataclasses import dataclass
from typing import Any

from frazil.errors import FormatError
from frazil.format.alpha.identities import LONG_SIZE, LONG_WIDTH, WIDTH, long_id, object_id
from frazil.format.alpha.times import format_time, parse_time
from frazil.format.alpha.unpacking import shown
from frazil.ids import ObjectId, SnapshotId

__all__ = ["OldRef", "decode_old_ref", "encode_alpha1_ref"]


@dataclass(frozen=True, slots=True)
class OldRef:
    snapshot: SnapshotId
    has_long_id: bool
    written_at_us: int | None  # since A1c nobody says


def decode_old_ref(data: Buffer) -> OldRef:
    try:
        document = json.loads(bytes(data))
    except (ValueError, RecursionError) as error:
        raise FormatError(f"a ref is not JSON: {error}") from error
    match document:
        case {"snapshot": value, "timestamp": when}:
            raw, is_long = _snapshot(value)
            return OldRef(SnapshotId(raw), is_long, parse_time(when, "the time of a ref"))
        case {"snapshot": value}:
            raw, is_long = _snapshot(value)
            return OldRef(SnapshotId(raw), is_long, None)
    raise FormatError(f"a ref is {shown(document)}, expected an object with a snapshot id")


def _snapshot(value: Any) -> tuple[bytes, bool]:
    match value:
        case str() if len(value) in {LONG_WIDTH, WIDTH}:
            return object_id(value, "the snapshot of a ref"), len(value) == LONG_WIDTH
        case str():
            try:
                raw = urlsafe_b64decode(value)
            except (binascii.Error, ValueError) as error:
                raise FormatError(f"a ref has no snapshot id but {shown(value)}") from error
            if len(raw) == LONG_SIZE:
                return raw[: ObjectId.size], True
        case list() if len(value) == LONG_SIZE:
            if all(type(each) is int and 0 <= each < 256 for each in value):
                return bytes(value)[: ObjectId.size], True
    raise FormatError(f"a ref has no snapshot id but {shown(value)}")


def encode_alpha1_ref(snapshot: SnapshotId, now_us: int) -> bytes:
    document = {
        "snapshot": list(long_id(snapshot.raw)),
        "timestamp": format_time(now_us),
        "properties": {},
    }
    return json.dumps(document, separators=(",", ":")).encode()
