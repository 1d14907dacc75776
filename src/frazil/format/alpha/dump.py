"""Metadata files of the generations before version 1 as JSON values: what MessagePack has in it.

Structs are arrays of their fields there, so that fields have no names to show; FORMATS has them.
Bytes of the length of an id are shown as one, others in base 16.
"""

from collections.abc import Buffer, Iterable
from itertools import islice
from typing import Any

from frazil.errors import FormatError
from frazil.flatbuf.flexbuffers import Json
from frazil.format.alpha.unpacking import is_flatbuffer, payload, unpack
from frazil.format.envelope import MAGIC, FileType, decode_header
from frazil.ids import format_base32

_ID_SIZES = (8, 12, 16)
_SHOWN_BYTES = 64


def dump_old(data: Buffer, *, max_rows: int | None) -> dict[str, Json] | None:
    """None if it is nothing of the kind. Of each list at most `max_rows` are shown."""
    try:
        expected, header = _header(data)
        content = payload(data, expected)
        if is_flatbuffer(content):
            return None
        value = unpack(content)
        if not isinstance(value, tuple | dict):
            return None  # any byte is MessagePack of a number
        shown = _shown(value, max_rows)
    except (FormatError, RecursionError):
        return None
    return {"header": header, "encoding": "msgpack", "content": shown}


def _header(data: Buffer) -> tuple[FileType, Json]:
    """From A3 on; earlier files have none."""
    if bytes(memoryview(data)[: len(MAGIC)]) != MAGIC:
        return FileType.SNAPSHOT, None
    header = decode_header(data)
    return header.file_type, {
        "written_by": header.writer,
        "spec_version": header.spec_version,
        "file_type": header.file_type.name.lower().replace("_", "-"),
        "compression": "zstd" if header.compression else "none",
    }


def _shown(value: Any, max_rows: int | None) -> Json:
    match value:
        case None | bool() | int() | float() | str():
            return value
        case bytes():
            return _bytes(value)
        case tuple() | list():
            return _limited((_shown(each, max_rows) for each in value), len(value), max_rows)
        case dict():
            pairs = islice(value.items(), max_rows)
            shown = {_name(key): _shown(each, max_rows) for key, each in pairs}
            left = len(value) - len(shown)
            return {**shown, "...": f"{left} more"} if left > 0 else shown
        case _:
            return repr(value)[:_SHOWN_BYTES]


def _limited(items: Iterable[Json], count: int, max_rows: int | None) -> list[Json]:
    shown = list(islice(items, max_rows))
    return shown if len(shown) == count else [*shown, f"... {count - len(shown)} more"]


def _name(key: Any) -> str:
    match key:
        case str():
            return key
        case bytes():
            return _bytes(key)
        case _:
            return str(key)


def _bytes(value: bytes) -> str:
    if len(value) in _ID_SIZES:
        return format_base32(value)
    more = f"... {len(value)} bytes" if len(value) > _SHOWN_BYTES else ""
    return value[:_SHOWN_BYTES].hex() + more
