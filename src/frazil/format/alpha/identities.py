"""Ids as the generations before version 1 wrote them.

                 objects                        nodes
    A1a .. A2a   text of 16 bytes               a number of 32 bits
    A2b .. A2e   text of 12 bytes               a number of 32 bits
    A2f .. A3a   text of 12 bytes               text of 8 bytes
    A3b .. A3e   [12 bytes, []]                 [8 bytes, []]

Everything else here knows objects by 12 bytes: of 16 those are the first. Ids are random, so no
two share them. A node's number is the end of its 8 bytes.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from frazil.errors import FormatError
from frazil.format.alpha.unpacking import shown
from frazil.ids import ALPHABET, NodeId, ObjectId, format_base32, parse_base32

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
    raise FormatError(f"{what} is {shown(value)}, expected an id")


def node_id(value: Any, what: str = "a node id") -> bytes:
    match value:
        case int() if not isinstance(value, bool) and 0 <= value < 2**32:
            return value.to_bytes(NodeId.size, "big")
        case str() if len(value) == NODE_WIDTH:
            return _parse(value, what)
        case (bytes() as raw, ()) if len(raw) == NodeId.size:
            return raw
    raise FormatError(f"{what} is {shown(value)}, expected an id")


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
