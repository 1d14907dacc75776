"""Nodes of a snapshot that replace a few of its predecessor's, without encoding the others again.

What was encoded is kept as bytes, and written again with little in front of it:

    head      root, message, list of manifests   encoded again, small
    vector    of nodes                           offsets: one subtraction for all of them
    new       nodes and what they point to
    tail      nodes and what they point to, as they were

As in a repo info that grows (repo_info.py), all offsets point forward and are relative: so the tail
does not depend on what is in front of it, and positions in it are counted from its end. Nodes that
were replaced remain in the tail until it has grown by a quarter; then everything is encoded again.

Only what is listed may be in a file, or it would be kept for longer than its history: the metadata
of a node that was replaced is overwritten with zeros, and when a path is deleted everything is
encoded again. Of the old node the file still has the id, the shape, the names of dimensions, and
the list of manifests.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from operator import is_
from struct import pack
from typing import Any, Final, override

import numpy as np
import numpy.typing as npt

from frazil.dataclass import dataclass
from frazil.errors import FormatError
from frazil.flatbuf.encode import encode_tables
from frazil.flatbuf.record_encoder import RecordTarget, UniformRows, place_of, raw_cells
from frazil.flatbuf.table import Table
from frazil.format.nodes import (
    ManifestRef,
    ManifestRefs,
    Node,
    Nodes,
    id_column,
    node_table,
    raw_ids,
    raw_manifest_ids,
)
from frazil.format.schemas import NODE_ARRAY, NODE_GROUP, NODE_SNAPSHOT, SNAPSHOT
from frazil.ids import ManifestId
from frazil.paths import NodePath

type Ints = npt.NDArray[np.int64]

_NODES: Final = SNAPSHOT.field("nodes").slot
_METADATA: Final = NODE_SNAPSHOT.field("user_data").slot
_WORN: Final = 4  # the part of a tail that may be what has been added to it
_SPARE_BYTES: Final = 4096  # that may be added in any case
_MAX_BYTES: Final = 2**30
_LISTED: Final = 32  # nodes up to which a list is faster to encode than columns
# A few changes are encoded one by one; of few nodes, all are as quickly.
_MOST_CHANGES, _LEAST_NODES, _MOST_NODES = 32, 4, 10_000
_FEW: Final = 8  # manifests up to which each is a record


@dataclass(frozen=True, slots=True, eq=False)
class Put:
    """A node, and the number of the one that it replaces; -1 for none."""

    node: Node
    replaced: int


@dataclass(frozen=True, slots=True, eq=False)
class Tail:
    """Encoded nodes; as long as a multiple of eight. Places are distances from the end."""

    data: bytes
    places: Ints  # of the nodes, by number
    texts: Ints  # of their metadata, which several may share
    put: tuple[Put, ...]  # after the nodes of the base
    whole_bytes: int  # when all of it was encoded

    @property
    def is_worn(self) -> bool:
        return len(self.data) > self.whole_bytes + self.whole_bytes // _WORN + _SPARE_BYTES

    def starts(self, put: Sequence[Put]) -> bool:
        """True if these nodes are in it, and perhaps more after them."""
        return len(self.put) <= len(put) and all(map(is_, self.put, put))

    def front(self, head: bytearray, numbers: Ints) -> tuple[bytes, bytes]:
        """The head of a file that ends in this tail, and its vector of the nodes of these numbers.

        In the head, the vector is empty.
        """
        head += bytes(-len(head) % 4)
        first, count = len(head), len(numbers)
        end = first + 4 + 4 * count
        padding = -end % 8
        place = place_of(head, int.from_bytes(head[:4], "little"), _NODES)
        head[place : place + 4] = (first - place).to_bytes(4, "little")
        vector = np.empty(1 + count, "<u4")
        vector[0] = count
        total = end + padding + len(self.data)
        vector[1:] = total - self.places[numbers] - np.arange(first + 4, end, 4)
        return bytes(head), vector.tobytes() + bytes(padding)


@dataclass(slots=True, eq=False)
class NewestTail:
    """The tail that descendants of one base encoded last."""

    tail: Tail | None = None


class GrowingNodes(Nodes):
    """The nodes of a base, with those that were put in their place or added since.

    The number of a node is its row in the base, or its place behind these among those put. Among
    ancestors and descendants, a number is one node.
    """

    __slots__ = ("_base", "_newest", "_numbers", "_put", "_uses")

    def __init__(
        self,
        base: Nodes,
        put: tuple[Put, ...],
        numbers: Ints,
        paths: list[bytes],
        *,
        uses: Counter[bytes],
        newest: NewestTail,
    ) -> None:
        """Numbers and paths of all nodes, in order, and how many of them use each manifest."""
        super().__init__(None, paths)
        self._base, self._put, self._numbers = base, put, numbers
        self._uses = uses
        self._newest: NewestTail = newest

    @classmethod
    def of(cls, base: Nodes) -> "GrowingNodes":
        """The base alone; a few nodes as a list, which is faster to encode."""
        if len(base) <= _LISTED and base.listed is None:
            base = Nodes.from_nodes(base)
        paths, uses = base.paths, Counter(raw_ids(base.manifest_ids()))
        return cls(base, (), np.arange(len(paths)), paths, uses=uses, newest=NewestTail())

    def __reduce__(self) -> tuple[object, ...]:  # what is encoded need not travel
        return Nodes, (self.table, self.paths)

    @property
    def is_worn(self) -> bool:
        """True if much of what would be written is in use no more."""
        tail = self._newest.tail
        return tail is not None and tail.is_worn

    def with_nodes(self, nodes: Sequence[Node]) -> "GrowingNodes":
        """These with others, at different paths, in place of those at their paths or added."""
        numbers, uses, put = self._numbers.copy(), self._uses.copy(), [*self._put]
        added: list[tuple[bytes, int]] = []
        for number, node in enumerate(nodes, len(self._base) + len(put)):
            row, old = self.find(node.path), -1
            uses.update(_raw_manifests(node))
            if row < 0:
                added.append((node.path.raw, number))
            else:
                for raw in _raw_manifests(self.node(row)):
                    uses[raw] -= 1
                    if not uses[raw]:
                        del uses[raw]
                old = numbers.item(row)
                numbers[row] = number
            put.append(Put(node, old))
        paths = self.paths
        if added:
            added.sort()
            places = [bisect_left(paths, path) for path, _ in added]
            numbers = np.insert(numbers, places, [number for _, number in added])
            paths = sorted([*paths, *[path for path, _ in added]])
        base, newest = self._base, self._newest
        return GrowingNodes(base, tuple(put), numbers, paths, uses=uses, newest=newest)

    @property
    @override
    def table(self) -> Table:
        if self._table is None:
            both = Table.concat([self._base.table, node_table([put.node for put in self._put])])
            self._table = both.take(self._numbers)
        return self._table

    @override
    def __len__(self) -> int:
        return len(self._numbers)

    @override
    def node(self, row: int) -> Node:
        number, count = self._numbers.item(row), len(self._base)
        return self._base.node(number) if number < count else self._put[number - count].node

    @override
    def path_text(self, row: int) -> str:
        return self.paths[row].decode()

    @override
    def manifest_ids(self) -> npt.NDArray[np.uint8]:
        return id_column([*self._uses], ManifestId.size)

    def encoded(self) -> tuple[Tail, Ints] | None:
        """The nodes as bytes, and their numbers in them; None if they are too large."""
        tail = self._newest.tail
        if tail is None or not tail.starts(self._put):
            tail = _encode_whole(self._base)
        if tail is None:
            return None
        tail = self._newest.tail = _add(tail, self._put, self._numbers)
        return tail, self._numbers


def patch(nodes: Nodes, *, remove: Collection[NodePath], put: Iterable[Node]) -> Nodes:
    """Does what `Nodes.patched` does; a few changes to these nodes are then quickly encoded."""
    by_path = {node.path: node for node in put}
    is_deleting = any(path not in by_path and nodes.find(path) >= 0 for path in remove)
    is_fit = _LEAST_NODES <= len(nodes) <= _MOST_NODES and len(by_path) <= _MOST_CHANGES
    if is_deleting or not is_fit:
        return nodes.patched(remove=remove, put=by_path.values())
    if not by_path:
        return nodes
    if not isinstance(nodes, GrowingNodes):
        nodes = GrowingNodes.of(nodes)
    elif nodes.is_worn:
        nodes = GrowingNodes.of(Nodes(nodes.table, nodes.paths))
    return nodes.with_nodes([*by_path.values()])


def _raw_manifests(node: Node) -> list[bytes]:
    return [] if node.array is None else raw_manifest_ids(node.array.manifests)


def _encode_whole(base: Nodes) -> Tail | None:
    """None if it is too large."""
    if base.listed is not None:
        data, rows = _encode_nodes(base.listed)
    else:
        data, (rows,) = encode_tables([base.table])
    size = len(data)
    if size > _MAX_BYTES:
        return None
    return Tail(data, size - rows, size - _find_texts(data, rows), (), size)


def _add(tail: Tail, put: tuple[Put, ...], numbers: Ints) -> Tail:
    """Adds the nodes of `put` that are not in it yet, and empties what they replace.

    `numbers` are those of all nodes that will be listed.
    """
    fresh = put[len(tail.put) :]
    if not fresh:
        return tail
    new, rows = _encode_nodes([each.node for each in fresh])
    size = len(new) + len(tail.data)
    places = np.concatenate([tail.places, size - rows])
    texts = np.concatenate([tail.texts, size - _find_texts(new, rows)])
    data = new + tail.data
    listed = texts[numbers]
    replaced = {texts.item(each.replaced) for each in fresh if each.replaced >= 0}
    if gone := [place for place in replaced if not (listed == place).any()]:
        data = _without_texts(data, gone)
    return Tail(data, places, texts, put, tail.whole_bytes)


def _encode_nodes(nodes: Sequence[Node]) -> tuple[bytes, Ints]:
    """Bytes, as long as a multiple of eight, and the position of each node."""
    target = RecordTarget()
    rows = [target.table(NODE_SNAPSHOT, node_record(node)) for node in nodes]
    target.align(8)
    return bytes(target.data), np.array(rows, np.int64)


def _find_texts(data: bytes, rows: Ints) -> Ints:
    """Position of the metadata of each node: a length, and as many bytes."""
    if not len(rows):
        return rows
    first = rows.item(0)
    cells = rows + (place_of(data, first, _METADATA) - first)  # all rows have the same fields
    found: Ints = cells + np.frombuffer(data, "<u4")[cells // 4]
    return found


def _without_texts(data: bytes, places: Iterable[int]) -> bytes:
    """Puts zeros in place of these texts, whose lengths stay."""
    emptied = bytearray(data)
    for place in places:
        start = len(data) - place + 4
        stop = start + int.from_bytes(data[start - 4 : start], "little")
        emptied[start:stop] = bytes(stop - start)
    return bytes(emptied)


# Nodes as records.


def node_record(node: Node) -> dict[str, Any]:
    array = node.array
    if array is None:
        data: tuple[int, dict[str, Any]] = (NODE_GROUP, {})
    else:
        if any(count >= 2**32 for count in array.num_chunks):
            raise FormatError("an axis has more chunks than the format can count")
        names = array.dimension_names
        axes = zip(array.shape, array.num_chunks, strict=True)
        data = (
            NODE_ARRAY,
            {
                "shape": b"",
                "dimension_names": None if names is None else [{"name": name} for name in names],
                "manifests": _manifest_records(array.manifests),
                "shape_v2": [{"array_length": length, "num_chunks": n} for length, n in axes],
            },
        )
    return {
        "id": node.id.raw,
        "path": node.path.raw,
        "user_data": node.user_data,
        "node_data": data,
    }


def _manifest_records(refs: Sequence[ManifestRef]) -> UniformRows | list[dict[str, bytes]]:
    if len(refs) > _FEW:
        columns = refs if isinstance(refs, ManifestRefs) else _manifest_columns(refs)
        if columns is not None:
            fields = {
                "object_id": columns.ids,
                "extents": raw_cells(columns.bounds.reshape(len(refs), -1), "<u4"),
            }
            return UniformRows(_manifest_record(refs[0]), fields, len(refs))
    return [_manifest_record(ref) for ref in refs]


def _manifest_columns(refs: Sequence[ManifestRef]) -> ManifestRefs | None:
    """None unless all state extents, of as many axes."""
    lengths = {len(ref.extents) for ref in refs}
    if len(lengths) != 1 or 0 in lengths:
        return None
    bounds = np.array([ref.extents for ref in refs], np.uint32)
    return ManifestRefs(id_column([ref.id.raw for ref in refs], ManifestId.size), bounds)


def _manifest_record(ref: ManifestRef) -> dict[str, bytes]:
    return {
        "object_id": ref.id.raw,
        "extents": b"".join([pack("<2I", *pair) for pair in ref.extents]),
    }
