"""What a row points to, kept right behind the row.

A vector or string that is a row's own, and as long as that of every other row, fits between the
row and the next one:

    row 0 | index 0 | location 0 | row 1 | index 1 | location 1 | ...

The offset from the field to it is then the same in every row. Elsewhere it would differ from row
to row, and cost a compressor dear: a transaction log of a million chunks was twice as large.
"""

from dataclasses import dataclass

import numpy as np

from frazil.flatbuf.columns import StringColumn, VectorColumn
from frazil.flatbuf.ragged import Array, Bytes1, even_length
from frazil.flatbuf.schema import Kind, String, element_size
from frazil.flatbuf.table import Column

MAX_BYTES = 512  # of one vector: longer ones are found easily wherever they are


@dataclass(frozen=True, slots=True)
class Attachment:
    """One vector for each row, all of the same length."""

    length: int  # elements of a vector
    values: Array  # (n, k) the elements, as numbers or bytes
    align: int  # of the elements
    is_terminated: bool

    @property
    def size(self) -> int:
        width: int = self.values.shape[1]
        return 4 + width * self.values.itemsize + int(self.is_terminated)

    def place(self, cursor: int) -> int:
        """The first place from `cursor` on at which the vector is aligned."""
        return cursor + -(cursor + 4) % max(4, self.align)

    def write(self, heap: Bytes1, place: int, stride: int) -> None:
        """Fills in the vectors `place` bytes from the start of rows that are `stride` apart."""
        count, width = self.values.shape
        kind = self.values.dtype.newbyteorder("<")
        np.ndarray((count,), "<u4", heap, place, (stride,))[:] = self.length
        cells = np.ndarray((count, width), kind, heap, place + 4, (stride, kind.itemsize))
        cells[:] = self.values


def attachment(kind: Kind, column: Column) -> Attachment | None:
    """The column's vectors, if they can be kept behind their rows."""
    if len(column) < 2:
        return None
    match column:
        case VectorColumn(values, splits):
            length = even_length(splits)
            size, align = element_size(kind)
            if not length or length * size > MAX_BYTES:
                return None
            return Attachment(length, values.reshape(len(column), -1), align, is_terminated=False)
        case StringColumn():
            return _attached_strings(column, is_terminated=isinstance(kind, String))
        case _:
            return None


def _attached_strings(column: StringColumn, *, is_terminated: bool) -> Attachment | None:
    codes, strings = column.codes, column.strings
    if int(codes[0]) < 0 or len(strings) < len(codes):  # some rows share one, or have none
        return None
    length = int(strings.length[codes[0]])
    if length > MAX_BYTES or not bool((strings.length[codes] == length).all()):
        return None
    if not bool((codes[1:] > codes[:-1]).all()):
        return None
    items = strings.take(codes).joined().reshape(len(codes), length)
    return Attachment(length, items, 1, is_terminated)
