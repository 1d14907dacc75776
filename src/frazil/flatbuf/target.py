"""The bytes of a buffer that is being encoded."""

from collections.abc import Buffer

import numpy as np

from frazil.errors import FormatError
from frazil.flatbuf.ragged import Bytes1

MAX_SIZE = 2**31 - 1


class Target:
    """The bytes so far: arrays in the order of their positions, filled in after they are placed."""

    def __init__(self) -> None:
        self.parts: list[Buffer] = []
        self.size = 0
        self.vtables: dict[bytes, int] = {}

    def reserve(self, size: int, align: int, ahead: int = 0) -> tuple[int, Bytes1]:
        """A place for `size` zero bytes that is `ahead` bytes before a multiple of `align`."""
        self._require_room(size + align)
        part = np.zeros(size, np.uint8)
        return self.append(part, align, ahead), part

    def append(self, part: Bytes1 | bytes | bytearray, align: int, ahead: int = 0) -> int:
        """Where the part is placed: `ahead` bytes before a multiple of `align`."""
        padding = -(self.size + ahead) % align
        position = self.size + padding
        self._require_room(padding + len(part))
        if padding:
            self.parts.append(bytes(padding))
        self.parts.append(part)
        self.size = position + len(part)
        return position

    def vtable(self, content: bytes) -> int:
        if content not in self.vtables:
            self.vtables[content] = self.append(content, 2)
        return self.vtables[content]

    def _require_room(self, size: int) -> None:
        if self.size + size > MAX_SIZE:
            raise FormatError(
                f"table is too large: more than the {MAX_SIZE} bytes of a FlatBuffer",
                kind="serialization",
            )
