"""The nodes of a snapshot file, of which a few are looked up before all are decoded.

Who opens one array then waits for none of the others. Files may hold their nodes in another order
(nodes.py), so what is not found where it should be is looked for among all.
"""

from collections.abc import Iterator

from frazil.errors import FormatError
from frazil.flatbuf.decode import decode
from frazil.flatbuf.lookup import SortedTables
from frazil.flatbuf.table import Table
from frazil.format.nodes import Node, Nodes, decode_nodes
from frazil.format.schemas import SNAPSHOT, SNAPSHOT_HEAD
from frazil.ids import SnapshotId
from frazil.paths import NodePath

# Each costs about a tenth of decoding thousands of nodes all at once, and half of decoding a few.
_FEW_LOOKUPS, _LOOKUPS_OF_MANY, _MANY_NODES = 2, 4, 1000


class StoredNodes(Nodes):
    """As decoded from `payload`, that of a file of either version.

    Damage is found when what is damaged is first asked for; the error then names the snapshot.
    """

    __slots__ = ("_lookups_left", "_payload", "_tables")

    def __init__(self, payload: bytes) -> None:
        super().__init__(None)
        self._payload = payload
        self._tables = SortedTables(payload, SNAPSHOT, "nodes", "path")
        is_many = self._tables.count >= _MANY_NODES
        self._lookups_left = _LOOKUPS_OF_MANY if is_many else _FEW_LOOKUPS

    def __reduce__(self) -> tuple[object, ...]:  # what it reads from cannot be pickled
        return Nodes, (self.table, self._paths)

    @property
    def table(self) -> Table:
        if self._table is None:
            try:
                decoded = decode_nodes(decode(self._payload, SNAPSHOT).tables("nodes").rows)
            except FormatError as error:
                raise error.at(_name_of(self._payload)) from error
            self._paths, self._table = decoded._paths, decoded.table  # noqa: SLF001 -- of its kind
        return self._table

    def __len__(self) -> int:
        return self._tables.count

    def path_texts(self) -> Iterator[str]:
        """In the order of the file, before all are decoded; what is no text is made one."""
        if self._table is not None:
            return super().path_texts()
        return (key.decode(errors="replace") for key in self._tables.each_key())

    def lookup(self, path: NodePath) -> Node | None:
        if self._table is None and self._lookups_left:
            self._lookups_left -= 1
            try:
                found = self._tables.find(path.raw)
                if found is not None:
                    return decode_nodes(found).node(0)
            except FormatError as error:
                raise error.at(_name_of(self._payload)) from error
        return super().lookup(path)


def _name_of(payload: bytes) -> str:
    """Which snapshot it is, for messages."""
    return f"snapshot {SnapshotId(decode(payload, SNAPSHOT_HEAD).struct('id').values[0].tobytes())}"
