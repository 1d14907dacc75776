"""MessagePack of the generations before version 1, read from strangers.

Structs are arrays of their fields and enums are maps of one name, so that nothing in the bytes says
what a value is: whoever takes one out of its place says what it must be.
"""

from collections.abc import Buffer, Sequence
from typing import Any

import msgpack  # type: ignore[import-untyped]  # the package has no type information

from frazil.errors import FormatError
from frazil.flatbuf.flexbuffers import Json
from frazil.format.envelope import FRAME_MAGIC, MAGIC, FileType, decode_envelope, decompress_frames
from frazil.format.limits import DEFAULT_LIMITS

_ZSTD = FRAME_MAGIC.to_bytes(4, "little")
_FLATBUFFER = b"Ichk"  # at byte 4 of the payload
type Fields = tuple[Any, ...]


def payload(data: Buffer, expected: FileType, *, max_size: int | None = None) -> bytes:
    """What is in a metadata file, with or without an envelope, compressed or not.

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
        found = f"{len(value)} fields" if isinstance(value, tuple) else shown(value)
        raise FormatError(f"{what} is {found}, expected {' or '.join(map(str, counts))} fields")
    return value


def items(value: Any, what: str) -> Fields:
    """A list of any length."""
    if not isinstance(value, tuple):
        raise FormatError(f"{what} is {shown(value)}, expected a list")
    return value


def mapping(value: Any, what: str) -> dict[Any, Any]:
    if not isinstance(value, dict):
        raise FormatError(f"{what} is {shown(value)}, expected a map")
    return value


def variant(value: Any, what: str) -> tuple[str, Any]:
    """An enum with content: its name, and the content."""
    match value:
        case dict() if len(value) == 1:
            name, content = next(iter(value.items()))
            if isinstance(name, str):
                return name, content
    raise FormatError(f"{what} is {shown(value)}, expected a map of one name")


def text(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise FormatError(f"{what} is {shown(value)}, expected text")
    return value


def number(value: Any, what: str, *, bits: int = 64) -> int:
    if type(value) is not int or not 0 <= value < 1 << bits:
        raise FormatError(f"{what} is {shown(value)}, expected a number of {bits} bits")
    return value


def plain(value: Any, what: str) -> Json:
    """A JSON value, the names in its objects sorted: some were written in any order."""
    try:
        return _plain(value, what)
    except RecursionError as error:
        raise FormatError(f"{what} is nested too deeply") from error


def named(value: Any, what: str) -> dict[str, Json]:
    """A JSON object."""
    found = plain(value, what)
    if not isinstance(found, dict):
        raise FormatError(f"{what} is {shown(value)}, expected a map")
    return found


def _plain(value: Any, what: str) -> Json:
    match value:
        case None | bool() | int() | float() | str():
            return value
        case tuple() | list():
            return [_plain(each, what) for each in value]
        case dict() if all(isinstance(name, str) for name in value):
            return {name: _plain(value[name], what) for name in sorted(value)}
        case _:
            raise FormatError(f"{what} is not JSON: it has {shown(value)}")


def shown(value: Any) -> str:
    """Short, whatever it is: it comes from a stranger."""
    match value:
        case None | bool() | int() | float():
            return repr(value)
        case str() | bytes():
            return repr(value[:40])
        case _:
            return f"a {type(value).__name__}"
