"""Values of files before version 1: MessagePack, the ids and times in it, and any file as JSON.

Structs are arrays of their fields and enums are maps of one name, so the bytes do not name the type
of a value: the caller that takes a value out of its place checks the type. Ids were written as

                 objects                        nodes
    A1a .. A2a   text of 16 bytes               a number of 32 bits
    A2b .. A2e   text of 12 bytes               a number of 32 bits
    A2f .. A3a   text of 12 bytes               text of 8 bytes
    A3b .. A3e   [12 bytes, []]                 [8 bytes, []]

The engine identifies objects by 12 bytes: the first 12 of 16. Ids are random, so no two ids share
them. The number of a node is the end of its 8 bytes.

Times are RFC 3339 text, `2024-10-11T23:23:33.504448054Z`. Nanoseconds are dropped on reading; on
writing there are as few digits as needed, in groups of three.
"""

from collections.abc import Buffer, Iterable, Sequence
from datetime import datetime
from itertools import islice
from typing import Any

import msgpack  # type: ignore[import-untyped]  # the package has no type information
import numpy as np
import numpy.typing as npt

from frazil.clock import from_datetime, to_datetime
from frazil.errors import FormatError
from frazil.flatbuf.flexbuffers import Json
from frazil.format.envelope import (
    FRAME_MAGIC,
    MAGIC,
    FileType,
    decode_envelope,
    decode_header,
    decompress_frames,
)
from frazil.format.limits import DEFAULT_LIMITS
from frazil.ids import ALPHABET, NodeId, ObjectId, format_base32, parse_base32

_ZSTD = FRAME_MAGIC.to_bytes(4, "little")
_FLATBUFFER = b"Ichk"  # at byte 4 of the payload
type Fields = tuple[Any, ...]


def payload(data: Buffer, expected: FileType, *, max_size: int | None = None) -> bytes:
    """The content of a metadata file, with or without an envelope, compressed or not.

    `max_size` as of decode_envelope.
    """
    view = memoryview(data).cast("B")
    if bytes(view[: len(MAGIC)]) == MAGIC:
        return decode_envelope(view, expected, max_size=max_size).data
    if max_size is None:
        max_size = DEFAULT_LIMITS.payload_bytes(len(view))
    if bytes(view[:4]) == _ZSTD:
        return decompress_frames(view, max_size=max_size)
    if len(view) > max_size:
        raise FormatError(f"file is {len(view)} bytes, at most {max_size} are accepted")
    return bytes(view)


def is_flatbuffer(content: bytes) -> bool:
    return content[4:8] == _FLATBUFFER


def unpack(content: Buffer) -> Any:
    """The value, its arrays as tuples, since they may be the keys of maps."""
    try:
        return msgpack.unpackb(content, use_list=False, strict_map_key=False)
    except (ValueError, TypeError, msgpack.UnpackException, RecursionError) as error:
        raise FormatError(f"not MessagePack: {error}") from error


def fields(value: Any, counts: Sequence[int], what: str) -> Fields:
    """A struct of so many fields."""
    if not isinstance(value, tuple) or len(value) not in counts:
        found = f"{len(value)} fields" if isinstance(value, tuple) else describe_value(value)
        raise FormatError(f"{what} is {found}, expected {' or '.join(map(str, counts))} fields")
    return value


def items(value: Any, what: str) -> Fields:
    """A list of any length."""
    if not isinstance(value, tuple):
        raise FormatError(f"{what} is {describe_value(value)}, expected a list")
    return value


def mapping(value: Any, what: str) -> dict[Any, Any]:
    if not isinstance(value, dict):
        raise FormatError(f"{what} is {describe_value(value)}, expected a map")
    return value


def variant(value: Any, what: str) -> tuple[str, Any]:
    """An enum with content: its name, and the content."""
    match value:
        case dict() if len(value) == 1:
            name, content = next(iter(value.items()))
            if isinstance(name, str):
                return name, content
    raise FormatError(f"{what} is {describe_value(value)}, expected a map of one name")


def text(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise FormatError(f"{what} is {describe_value(value)}, expected text")
    return value


def number(value: Any, what: str, *, bits: int = 64) -> int:
    if type(value) is not int or not 0 <= value < 1 << bits:
        raise FormatError(f"{what} is {describe_value(value)}, expected a number of {bits} bits")
    return value


def to_json(value: Any, what: str) -> Json:
    """A JSON value, the names in its objects sorted: some were written in any order."""
    try:
        return _to_json(value, what)
    except RecursionError as error:
        raise FormatError(f"{what} is nested too deeply") from error


def json_object(value: Any, what: str) -> dict[str, Json]:
    """A JSON object."""
    found = to_json(value, what)
    if not isinstance(found, dict):
        raise FormatError(f"{what} is {describe_value(value)}, expected a map")
    return found


def _to_json(value: Any, what: str) -> Json:
    match value:
        case None | bool() | int() | float() | str():
            return value
        case tuple() | list():
            return [_to_json(each, what) for each in value]
        case dict() if all(isinstance(name, str) for name in value):
            return {name: _to_json(value[name], what) for name in sorted(value)}
        case _:
            raise FormatError(f"{what} is not JSON: it has {describe_value(value)}")


def describe_value(value: Any) -> str:
    """A value for an error message, shortened: files come from strangers."""
    match value:
        case None | bool() | int() | float():
            return repr(value)
        case str() | bytes():
            return repr(value[:40])
        case _:
            return f"a {type(value).__name__}"


LONG_SIZE = 16  # bytes of an id up to A2a
LONG_WIDTH, WIDTH, NODE_WIDTH = 26, 20, 13  # characters of 16, 12 and 8 bytes
_SIZES = {LONG_WIDTH: LONG_SIZE, WIDTH: ObjectId.size, NODE_WIDTH: NodeId.size}
_PADDING = bytes(LONG_SIZE - ObjectId.size)


def _letter_values() -> npt.NDArray[np.uint8]:
    values = np.full(256, 255, dtype=np.uint8)
    for value, letter in enumerate(ALPHABET):
        values[ord(letter)] = values[ord(letter.lower())] = value
    return values


_VALUES = _letter_values()


def object_id(value: Any, what: str) -> bytes:
    """The 12 bytes that an object is known by."""
    match value:
        case str() if len(value) in {LONG_WIDTH, WIDTH}:
            return _parse(value, what)[: ObjectId.size]
        case (bytes() as raw, ()) if len(raw) == ObjectId.size:
            return raw
    raise FormatError(f"{what} is {describe_value(value)}, expected an id")


def node_id(value: Any, what: str = "a node id") -> bytes:
    match value:
        case int() if not isinstance(value, bool) and 0 <= value < 2**32:
            return value.to_bytes(NodeId.size, "big")
        case str() if len(value) == NODE_WIDTH:
            return _parse(value, what)
        case (bytes() as raw, ()) if len(raw) == NodeId.size:
            return raw
    raise FormatError(f"{what} is {describe_value(value)}, expected an id")


def object_ids(values: Sequence[Any], what: str) -> npt.NDArray[np.uint8]:
    """Many at once, (n, 12)."""
    if not values:
        return np.zeros((0, ObjectId.size), dtype=np.uint8)
    if all(isinstance(each, str) for each in values):
        width, joined = len(values[0]), "".join(values)
        is_even = all(len(each) == width for each in values)
        if is_even and width in {LONG_WIDTH, WIDTH} and joined.isascii():
            return _parse_rows(joined.encode(), width, what)[:, : ObjectId.size]
    raw = b"".join([object_id(each, what) for each in values])
    return np.frombuffer(raw, dtype=np.uint8).reshape(-1, ObjectId.size)


def _parse_rows(joined: bytes, width: int, what: str) -> npt.NDArray[np.uint8]:
    values = _VALUES[np.frombuffer(joined, dtype=np.uint8)].reshape(-1, width)
    if values.size and values.max() > 31:
        raise FormatError(f"{what} is not base 32")
    bits = np.unpackbits(values[:, :, np.newaxis], axis=2)[:, :, 3:].reshape(len(values), -1)
    return np.packbits(bits[:, : _SIZES[width] * 8], axis=1)


def _parse(value: str, what: str) -> bytes:
    try:
        return parse_base32(value, _SIZES[len(value)])
    except ValueError as error:
        raise FormatError(f"{what}: {error}") from error


def long_id(raw: bytes) -> bytes:
    """The 16 bytes that an object written here has up to A2a."""
    return raw + _PADDING


def id_text(raw: bytes, *, long: bool) -> str:
    return format_base32(long_id(raw) if long else raw)


def node_number(raw: bytes) -> int:
    """Raises FormatError for a node that has no number: those of later generations."""
    if len(raw) != NodeId.size or raw[:4] != bytes(4):
        raise FormatError("a node has an id of more than 32 bits", kind="unsupported-spec-version")
    return int.from_bytes(raw, "big")


def parse_time(value: Any, what: str) -> int:
    """Microseconds since 1970."""
    try:
        moment = from_datetime(datetime.fromisoformat(text(value, what)))
    except (ValueError, TypeError, OverflowError) as error:
        raise FormatError(f"{what} is {describe_value(value)}, expected a time") from error
    if moment < 0:
        raise FormatError(f"{what} is {describe_value(value)}, before 1970")
    return moment


def format_time(moment_us: int) -> str:
    start = to_datetime(moment_us).strftime("%Y-%m-%dT%H:%M:%S")
    rest = moment_us % 1_000_000
    if not rest:
        return f"{start}Z"
    return f"{start}.{rest // 1000:03d}Z" if rest % 1000 == 0 else f"{start}.{rest:06d}Z"


_ID_SIZES = (8, 12, 16)
_SHOWN_BYTES = 64


def dump_old(data: Buffer, *, max_rows: int | None) -> dict[str, Json] | None:
    """A file before version 1 as JSON; None for another file. Lists are cut after `max_rows`."""
    try:
        expected, header = _header(data)
        content = payload(data, expected)
        if is_flatbuffer(content):
            return None
        value = unpack(content)
        if not isinstance(value, tuple | dict):
            return None  # any byte is MessagePack of a number
        shown = _dump_value(value, max_rows)
    except (FormatError, RecursionError):
        return None
    return {"header": header, "encoding": "msgpack", "content": shown}


def _header(data: Buffer) -> tuple[FileType, Json]:
    """The header of a file, from A3 on; earlier files have none."""
    if bytes(memoryview(data)[: len(MAGIC)]) != MAGIC:
        return FileType.SNAPSHOT, None
    header = decode_header(data)
    return header.file_type, {
        "written_by": header.writer,
        "spec_version": header.spec_version,
        "file_type": header.file_type.name.lower().replace("_", "-"),
        "compression": "zstd" if header.compression else "none",
    }


def _dump_value(value: Any, max_rows: int | None) -> Json:
    match value:
        case None | bool() | int() | float() | str():
            return value
        case bytes():
            return _bytes(value)
        case tuple() | list():
            return _limit_items(
                (_dump_value(each, max_rows) for each in value), len(value), max_rows
            )
        case dict():
            pairs = islice(value.items(), max_rows)
            shown = {_name(key): _dump_value(each, max_rows) for key, each in pairs}
            left = len(value) - len(shown)
            return {**shown, "...": f"{left} more"} if left > 0 else shown
        case _:
            return repr(value)[:_SHOWN_BYTES]


def _limit_items(items: Iterable[Json], count: int, max_rows: int | None) -> list[Json]:
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
