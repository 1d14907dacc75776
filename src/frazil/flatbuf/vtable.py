"""Where the fields of a table are; decode.py draws the bytes."""

from struct import Struct

from frazil.errors import FormatError
from frazil.flatbuf.source import Source

_U2_U2, _U2 = Struct("<HH"), Struct("<H")


class VTable:
    """Of a table called `name` in messages. Read number by number: most files have few."""

    def __init__(self, source: Source, position: int, name: str) -> None:
        source.check_one(position, 4, 2, f"vtable of {name}")
        length, self.size = _U2_U2.unpack_from(source.data, position)  # `size`: of the table
        if length < 4 or length % 2 or position + length > source.size:
            raise FormatError(f"vtable of {name} has an impossible size")
        self._data = source.data
        self._position = position
        self._slots = (length - 4) // 2

    def require_inside(self, source: Source, last: int, name: str) -> None:
        """Raises unless a table at `last` ends inside the buffer."""
        if self.size < 4 or last + self.size > source.size:
            raise FormatError(f"{name} is outside the buffer of {source.size} bytes")

    def place(self, slot: int, size: int, what: str) -> int:
        """Where the slot is, from the start of the table; 0 if the table does not have it."""
        if slot >= self._slots:
            return 0
        place: int = _U2.unpack_from(self._data, self._position + 4 + 2 * slot)[0]
        if place and (place < 4 or place + size > self.size):
            raise FormatError(f"{what} is outside its table")
        return place
