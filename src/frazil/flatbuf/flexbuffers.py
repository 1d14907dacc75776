"""FlexBuffers: JSON-like values in binary, both ways.

    buffer    ... root value | its packed type (1 byte) | its width in bytes (1 byte)
    packed    type << 2 | log2(width)
    inline    null, int, uint, float, bool: in the place itself, as wide as their container
    offset    everything else: distance back from where it stands to the value
    string    length | bytes | NUL           (the offset points behind the length)
    key       bytes | NUL
    vector    length | elements | packed type of each element
    typed     length | elements              (fixed: no length)
    map       offset to keys | width of keys | length | values | packed type of each value
    keys      a typed vector of keys, sorted

Reading trusts nothing: positions are checked, depth is limited, and so is the sum of all that is
read, since vectors may share their elements. https://flatbuffers.dev/flatbuffers_internals/
"""

import struct
from collections.abc import Buffer, Sequence
from enum import IntEnum
from operator import itemgetter
from typing import Final

from frazil.dataclass import dataclass
from frazil.errors import FormatError, InvalidInputError

type Json = bool | int | float | str | list[Json] | dict[str, Json] | None

MAX_DEPTH: Final = 128
BAD: Final = "bad-metadata"


class Kind(IntEnum):
    """Types by their numbers on disk."""

    NULL = 0
    INT = 1
    UINT = 2
    FLOAT = 3
    KEY = 4
    STRING = 5
    INDIRECT_INT = 6
    INDIRECT_UINT = 7
    INDIRECT_FLOAT = 8
    MAP = 9
    VECTOR = 10
    VECTOR_INT = 11
    VECTOR_UINT = 12
    VECTOR_FLOAT = 13
    VECTOR_KEY = 14
    VECTOR_STRING_DEPRECATED = 15
    BLOB = 25
    BOOL = 26
    VECTOR_BOOL = 36


_INLINE: Final = {Kind.NULL, Kind.INT, Kind.UINT, Kind.FLOAT, Kind.BOOL}
_INDIRECT: Final = {
    Kind.INDIRECT_INT: Kind.INT,
    Kind.INDIRECT_UINT: Kind.UINT,
    Kind.INDIRECT_FLOAT: Kind.FLOAT,
}
_TYPED: Final = {
    Kind.VECTOR_INT: Kind.INT,
    Kind.VECTOR_UINT: Kind.UINT,
    Kind.VECTOR_FLOAT: Kind.FLOAT,
    Kind.VECTOR_KEY: Kind.KEY,
    # The width of these strings' lengths is not stored; every reader takes them for keys.
    Kind.VECTOR_STRING_DEPRECATED: Kind.KEY,
    Kind.VECTOR_BOOL: Kind.BOOL,
}
# Number of a fixed vector type -> its element type and length
_FIXED: Final = {
    16 + 3 * (length - 2) + place: (kind, length)
    for length in (2, 3, 4)
    for place, kind in enumerate((Kind.INT, Kind.UINT, Kind.FLOAT))
}
_FLOATS: Final = {2: "<e", 4: "<f", 8: "<d"}


def decode_flexbuffer(data: Buffer) -> Json:
    """The root value. Raises FormatError for bytes that are none, and for blobs."""
    found = bytes(data)
    if len(found) < 3:
        raise FormatError(f"flexbuffer is {len(found)} bytes, expected at least 3")
    width, packed = found[-1], found[-2]
    if width not in {1, 2, 4, 8}:
        raise FormatError(f"flexbuffer has a root of {width} bytes")
    return _Reader(found).value(len(found) - 2 - width, width, packed, 0)


def encode_flexbuffer(value: Json) -> bytes:
    """The value as the root of a buffer; keys sorted, lists as untyped vectors, floats as f64.

    Raises InvalidInputError for what FlexBuffers or JSON cannot hold.
    """
    writer = _Writer()
    root = writer.place(value, 0)
    width = writer.width_for([root], prefix=0, keys=None)
    writer.align(width)
    writer.put(root, width)
    return bytes(writer.out) + bytes([root.packed(width), width])


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.budget = 4 * len(data)
        # Shared strings and keys are read, and paid for, once.
        self.texts: dict[tuple[int, int], str] = {}
        self.keys: dict[int, str] = {}

    def spend(self, size: int) -> None:
        self.budget -= size
        if self.budget < 0:
            raise FormatError("values of the flexbuffer overlap too much")

    def span(self, start: int, size: int) -> bytes:
        if start < 0 or start + size > len(self.data):
            raise FormatError(f"flexbuffer of {len(self.data)} bytes has a value outside of it")
        return self.data[start : start + size]

    def uint(self, position: int, width: int) -> int:
        return int.from_bytes(self.span(position, width), "little")

    def target(self, position: int, width: int) -> int:
        return position - self.uint(position, width)

    def value(self, position: int, parent_width: int, packed: int, depth: int) -> Json:
        """The value whose place, `parent_width` wide, is at `position`."""
        if depth > MAX_DEPTH:
            raise FormatError(f"flexbuffer is nested more than {MAX_DEPTH} deep")
        number, width = packed >> 2, 1 << (packed & 3)
        if number in _INLINE:
            return self.inline(Kind(number), position, parent_width)
        target = self.target(position, parent_width)
        if number in _INDIRECT:
            return self.inline(_INDIRECT[Kind(number)], target, width)
        if number == Kind.STRING:
            return self.text(target, self.uint(target - width, width))
        if number == Kind.KEY:
            return self.key(target)
        return self.container(number, target, width, depth)

    def container(self, number: int, target: int, width: int, depth: int) -> Json:
        match number:
            case Kind.VECTOR:
                return self.vector(target, width, depth)
            case Kind.MAP:
                return self.map(target, width, depth)
            case Kind.BLOB:
                raise FormatError("flexbuffer has a blob, expected values that JSON knows")
            case _ if number in _TYPED or number in _FIXED:
                return self.typed(number, target, width)
            case _:
                raise FormatError(f"flexbuffer has a value of unknown type {number}")

    def inline(self, kind: Kind, position: int, width: int) -> bool | int | float | None:
        found = self.span(position, width)
        match kind:
            case Kind.NULL:
                return None
            case Kind.BOOL:
                return any(found)
            case Kind.FLOAT:
                if width not in _FLOATS:
                    raise FormatError("flexbuffer has a float of one byte")
                number: float = struct.unpack(_FLOATS[width], found)[0]
                return number
            case _:
                return int.from_bytes(found, "little", signed=kind is Kind.INT)

    def text(self, start: int, size: int) -> str:
        if (start, size) not in self.texts:
            self.spend(size)
            try:
                self.texts[start, size] = self.span(start, size).decode()
            except UnicodeDecodeError as error:
                raise FormatError("flexbuffer has text that is not UTF-8") from error
        return self.texts[start, size]

    def key(self, start: int) -> str:
        if start not in self.keys:
            end = self.data.find(0, start) if start >= 0 else -1
            if end < 0:
                raise FormatError("flexbuffer has a key without end")
            self.keys[start] = self.text(start, end - start)
        return self.keys[start]

    def length(self, target: int, width: int) -> int:
        """Elements of a vector, which are in bounds."""
        length = self.uint(target - width, width)
        if target + length * width > len(self.data):
            raise FormatError(f"flexbuffer has a vector of {length} elements")
        self.spend(length)
        return length

    def typed(self, number: int, target: int, width: int) -> list[Json]:
        if number in _FIXED:
            kind, length = _FIXED[number]
        else:
            kind, length = _TYPED[Kind(number)], self.length(target, width)
        places = range(target, target + length * width, width)
        if kind is Kind.KEY:
            return [self.key(self.target(place, width)) for place in places]
        return [self.inline(kind, place, width) for place in places]

    def vector(self, target: int, width: int, depth: int) -> list[Json]:
        length = self.length(target, width)
        types = self.span(target + length * width, length)
        return [
            self.value(target + index * width, width, packed, depth + 1)
            for index, packed in enumerate(types)
        ]

    def map(self, target: int, width: int, depth: int) -> dict[str, Json]:
        keys = self.target(target - 3 * width, width)
        keys_width = self.uint(target - 2 * width, width)
        if keys_width not in {1, 2, 4, 8}:
            raise FormatError(f"flexbuffer has keys of {keys_width} bytes")
        names = self.typed(Kind.VECTOR_KEY, keys, keys_width)
        values = self.vector(target, width, depth)
        if len(names) != len(values):
            raise FormatError(f"flexbuffer has a map of {len(names)} keys, {len(values)} values")
        return {str(name): value for name, value in zip(names, values, strict=True)}


@dataclass(frozen=True, slots=True)
class _Slot:
    """A value to be put into its place: its bytes, or where in the buffer it is."""

    kind: Kind
    width: int  # an inline value's least; else the width of what the offset points to
    content: bytes | None = None
    target: int = 0

    def packed(self, width: int) -> int:
        """Type byte for a place of this width."""
        own = width if self.content is not None else self.width
        return self.kind << 2 | own.bit_length() - 1

    def width_at(self, position: int) -> int:
        """Least width of a place at this position."""
        return self.width if self.content is not None else _uint_width(position - self.target)


class _Writer:
    """The bytes so far: children before parents, since offsets point back."""

    def __init__(self) -> None:
        self.out = bytearray()
        self.keys: dict[bytes, int] = {}

    def align(self, width: int) -> None:
        self.out += bytes(-len(self.out) % width)

    def uint(self, value: int, width: int) -> None:
        self.out += value.to_bytes(width, "little")

    def put(self, slot: _Slot, width: int) -> None:
        if slot.content is None:
            self.uint(len(self.out) - slot.target, width)
        else:
            # A negative number is widened by its sign, everything else by zeros.
            negative = slot.kind is Kind.INT and slot.content[-1] >= 0x80
            filler = b"\xff" if negative else b"\0"
            self.out += slot.content + filler * (width - len(slot.content))

    def place(self, value: object, depth: int) -> _Slot:
        """Writes what cannot stand inline, and returns what can."""
        if depth > MAX_DEPTH:
            raise InvalidInputError(f"value is nested more than {MAX_DEPTH} deep", kind=BAD)
        match value:
            case None | bool() | int() | float():
                return _inline_slot(value)
            case str():
                return self.string(value)
            case list():
                return self.vector(Kind.VECTOR, [self.place(item, depth + 1) for item in value])
            case dict():
                return self.map(value, depth)
            case _:
                raise InvalidInputError(f"not a JSON value: {type(value).__name__}", kind=BAD)

    def string(self, value: str) -> _Slot:
        encoded = _utf8(value)
        width = _uint_width(len(encoded))
        self.align(width)
        self.uint(len(encoded), width)
        target = len(self.out)
        self.out += encoded + b"\0"
        return _Slot(Kind.STRING, width, target=target)

    def key(self, encoded: bytes) -> _Slot:
        if encoded not in self.keys:
            self.keys[encoded] = len(self.out)
            self.out += encoded + b"\0"
        return _Slot(Kind.KEY, 1, target=self.keys[encoded])

    def map(self, value: dict[object, object], depth: int) -> _Slot:
        pairs = [(_key(name), item) for name, item in value.items()]
        pairs.sort(key=itemgetter(0))
        values = [self.place(item, depth + 1) for _, item in pairs]
        keys = self.vector(Kind.VECTOR_KEY, [self.key(name) for name, _ in pairs])
        return self.vector(Kind.MAP, values, keys)

    def vector(self, kind: Kind, slots: Sequence[_Slot], keys: _Slot | None = None) -> _Slot:
        width = self.width_for(slots, prefix=1 if keys is None else 3, keys=keys)
        self.align(width)
        if keys is not None:
            self.put(keys, width)
            self.uint(keys.width, width)
        self.uint(len(slots), width)
        target = len(self.out)
        for slot in slots:
            self.put(slot, width)
        if kind is not Kind.VECTOR_KEY:
            self.out += bytes(slot.packed(width) for slot in slots)
        return _Slot(kind, width, target=target)

    def width_for(self, slots: Sequence[_Slot], *, prefix: int, keys: _Slot | None) -> int:
        """The least width at which the length and all slots fit when written here."""
        least = max([_uint_width(len(slots)), *(s.width for s in slots if s.content is not None)])
        for width in (1, 2, 4):
            start = len(self.out) + -len(self.out) % width
            first = start + prefix * width
            if (
                width >= least
                and (keys is None or keys.width_at(start) <= width)
                and all(s.width_at(first + i * width) <= width for i, s in enumerate(slots))
            ):
                return width
        return 8


def _uint_width(value: int) -> int:
    return next((width for width in (1, 2, 4) if value < 256**width), 8)


def _inline_slot(value: float | None) -> _Slot:
    if value is None:
        return _Slot(Kind.NULL, 1, b"\0")
    if isinstance(value, bool):
        return _Slot(Kind.BOOL, 1, bytes([value]))
    if isinstance(value, int):
        return _int_slot(value)
    return _Slot(Kind.FLOAT, 8, struct.pack("<d", value))


def _int_slot(value: int) -> _Slot:
    if not -(2**63) <= value < 2**64:
        raise InvalidInputError(f"{value} does not fit into 64 bits", kind=BAD)
    if value >= 0:
        width = _uint_width(value)
        return _Slot(Kind.UINT, width, value.to_bytes(width, "little"))
    width = _uint_width(2 * ~value + 1)  # one bit more, for the sign
    return _Slot(Kind.INT, width, value.to_bytes(width, "little", signed=True))


def _key(name: object) -> bytes:
    if not isinstance(name, str) or "\0" in name:
        raise InvalidInputError(f"not a key: {name!r}, expected text without NUL", kind=BAD)
    return _utf8(name)


def _utf8(value: str) -> bytes:
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise InvalidInputError(f"text is not Unicode: {value!r}", kind=BAD) from error
