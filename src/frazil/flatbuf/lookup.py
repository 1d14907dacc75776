"""One table of a sorted vector, found without decoding the others; decode.py draws the bytes."""

from collections.abc import Buffer, Iterator

from frazil.errors import FormatError
from frazil.flatbuf.decode import decode_at, source_of
from frazil.flatbuf.decode_row import Row
from frazil.flatbuf.schema import TableSchema, TableVector
from frazil.flatbuf.source import Source
from frazil.flatbuf.table import Table


class SortedTables:
    """The tables of a vector of the root, which should ascend by a string that each has.

    Whether they do is not checked, nor is any table that is not looked at.
    """

    def __init__(self, data: Buffer, root: TableSchema, vector: str, key: str) -> None:
        """`vector` and `key` are names of fields, of the root and of the tables."""
        field = root.field(vector)
        if not isinstance(field.kind, TableVector):
            raise TypeError(f"{root.name}.{vector} is no vector of tables")
        self._source = source_of(data)
        self._schema = field.kind.schema
        self._slot = self._schema.field(key).slot
        self._what = f"{self._schema.name}.{key}"
        what = f"{root.name}.{vector}"
        row = Row(self._source, root, self._source.u4(0))
        place = _required(row, field.slot, what)
        self.count = row.length(place, 4, 4, what)
        self._first = place + 4

    def each_key(self) -> Iterator[bytes]:
        """In the order in which the tables are listed."""
        return map(self._key, range(self.count))

    def find(self, key: bytes) -> Table | None:
        """A table of one row; None if there is none where it should be."""
        low, high = 0, self.count
        while low < high:
            middle = (low + high) // 2
            if self._key(middle) < key:
                low = middle + 1
            else:
                high = middle
        if low == self.count or self._key(low) != key:
            return None
        # What may be gathered is limited for each table, not for all that are ever asked for.
        source = Source(self._source.heap, self._source.budget)
        return decode_at(source, self._schema, self._place(low))

    def _place(self, index: int) -> int:
        cell = self._first + 4 * index
        return cell + self._source.u4(cell)

    def _key(self, index: int) -> bytes:
        row = Row(self._source, self._schema, self._place(index))
        place = _required(row, self._slot, self._what)
        start = place + 4
        return bytes(self._source.data[start : start + row.length(place, 1, 1, self._what)])


def _required(row: Row, slot: int, what: str) -> int:
    """Where the offset in a slot points to."""
    cell = row.cell(slot, 4, 4, what)
    if not cell:
        raise FormatError(f"{what} is required, and missing")
    return row.target(cell, what)
