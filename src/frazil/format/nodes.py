"""The nodes of a snapshot: groups and arrays, by path. Spec: "NodeSnapshot", "ArrayNodeData".

Nodes are sorted by the raw UTF-8 bytes of their path (the text of spec 2.0 says by component,
the reference and spec 2.1 say by bytes). Writers before icechunk 1.1.3 sorted by component, so
what is read is sorted again where needed.
"""

import json
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import cast, overload, override

import numpy as np
import numpy.typing as npt

from frazil.dataclass import dataclass
from frazil.errors import FormatError, InvalidInputError
from frazil.flatbuf.columns import (
    ScalarColumn,
    StringColumn,
    StructColumn,
    VectorColumn,
)
from frazil.flatbuf.decode import SortedTables, decode
from frazil.flatbuf.ragged import even_length, splits_of
from frazil.flatbuf.strings import Strings
from frazil.flatbuf.table import Table, TableVectorColumn, UnionColumn
from frazil.format.schemas import (
    ARRAY_NODE_DATA,
    DIMENSION_NAME,
    DIMENSION_SHAPE_V2,
    GROUP_NODE_DATA,
    MANIFEST_REF,
    NODE_ARRAY,
    NODE_GROUP,
    NODE_SNAPSHOT,
    SNAPSHOT,
    SNAPSHOT_HEAD,
)
from frazil.ids import ManifestId, NodeId, SnapshotId
from frazil.paths import ROOT, NodePath

_FEW = 32  # nodes or manifests up to which a list is faster than columns


@dataclass(frozen=True, slots=True)
class ManifestRef:
    """A manifest, and the part of the chunk grid it holds: (from, to) per axis, `to` exclusive."""

    id: ManifestId
    extents: tuple[tuple[int, int], ...]


class ManifestRefs(Sequence[ManifestRef]):
    """Many manifests of an array, as columns: each becomes a record when it is asked for.

    Equal to any sequence of the same. Not to be changed.
    """

    __slots__ = ("bounds", "ids")

    def __init__(self, ids: npt.NDArray[np.uint8], bounds: npt.NDArray[np.uint32]) -> None:
        self.ids = ids  # (n, 12)
        self.bounds = bounds  # (n, ndim, 2): from, to

    @override
    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, at: int) -> ManifestRef: ...
    @overload
    def __getitem__(self, at: slice) -> "ManifestRefs": ...
    @override
    def __getitem__(self, at: int | slice) -> "ManifestRef | ManifestRefs":
        if isinstance(at, slice):
            return ManifestRefs(self.ids[at], self.bounds[at])
        extents = tuple((start, stop) for start, stop in self.bounds[at].tolist())
        return ManifestRef(ManifestId(self.ids[at].tobytes()), extents)

    @override
    def __iter__(self) -> Iterator[ManifestRef]:
        for raw, bounds in zip(raw_ids(self.ids), self.bounds.tolist(), strict=True):
            yield ManifestRef(ManifestId(raw), tuple([(start, stop) for start, stop in bounds]))

    @override
    def __eq__(self, other: object) -> bool:
        if isinstance(other, ManifestRefs):
            return np.array_equal(self.ids, other.ids) and np.array_equal(self.bounds, other.bounds)
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    @override
    def __hash__(self) -> int:
        return hash(tuple(self))


def raw_manifest_ids(refs: Sequence[ManifestRef]) -> list[bytes]:
    return raw_ids(refs.ids) if isinstance(refs, ManifestRefs) else [ref.id.raw for ref in refs]


def refs_around(
    refs: Sequence[ManifestRef], index: npt.NDArray[np.uint32]
) -> Sequence[ManifestRef]:
    """Manifests that may hold one of the chunks, (n, ndim): their extents meet the box of these."""
    if not isinstance(refs, ManifestRefs) or not len(index):
        return refs
    first, last = index.min(axis=0), index.max(axis=0)
    meets = ((refs.bounds[:, :, 0] <= last) & (refs.bounds[:, :, 1] > first)).all(axis=1)
    return [refs[row] for row in np.flatnonzero(meets).tolist()]


@dataclass(frozen=True, slots=True)
class ArrayData:
    shape: tuple[int, ...]
    num_chunks: tuple[int, ...]
    dimension_names: tuple[str | None, ...] | None = None
    manifests: Sequence[ManifestRef] = ()


@dataclass(frozen=True, slots=True)
class Node:
    id: NodeId
    path: NodePath
    user_data: bytes  # zarr.json as it was given
    array: ArrayData | None = None  # None for a group

    @property
    def is_array(self) -> bool:
        return self.array is not None


_AFTER_SLASH = b"0"  # the byte that follows "/"


class Nodes:
    """All nodes of a snapshot, in ascending order of raw path. Not to be changed.

    A few are kept as a list; their table is built on demand.
    """

    __slots__ = ("_listed", "_paths", "_table")

    def __init__(
        self,
        table: Table | None,
        paths: list[bytes] | None = None,
        *,
        listed: Sequence[Node] | None = None,
    ) -> None:
        """A table, or the nodes; `paths` if they are known."""
        self._table = table
        self._listed = None if listed is None else tuple(listed)
        self._paths = paths

    @classmethod
    def empty(cls) -> "Nodes":
        return cls(None, [], listed=())

    @classmethod
    def from_nodes(cls, nodes: Iterable[Node]) -> "Nodes":
        """Nodes in any order; of two at one path the last."""
        by_path = {node.path.raw: node for node in nodes}
        paths = sorted(by_path)
        listed = [by_path[raw] for raw in paths]
        if len(listed) <= _FEW:
            return cls(None, paths, listed=listed)
        return cls(node_table(listed), paths)

    @property
    def table(self) -> Table:
        """NODE_SNAPSHOT, arrays in the form of version 2."""
        if self._table is None:
            self._table = node_table(self._listed or ())
        return self._table

    @property
    def listed(self) -> Sequence[Node] | None:
        """The nodes as a list, if they are few and kept as one."""
        return self._listed

    def __len__(self) -> int:
        return len(self.table) if self._listed is None else len(self._listed)

    def __iter__(self) -> Iterator[Node]:
        return map(self.node, range(len(self)))

    @property
    def paths(self) -> list[bytes]:
        if self._paths is None:
            self._paths = raw_paths(self.table)
        return self._paths

    def raw_ids(self) -> list[bytes]:
        return raw_ids(self.table.struct("id").values)

    def path_text(self, row: int) -> str:
        if self._listed is not None:
            return self._listed[row].path.text
        return self.table.string("path").text(row) or ""

    def path_texts(self) -> Iterator[str]:
        """Paths of all nodes, in the order of the rows."""
        return map(self.path_text, range(len(self)))

    def find(self, path: NodePath) -> int:
        """Row of the node, -1 if there is none."""
        return self._find_raw(path.raw)

    def lookup(self, path: NodePath) -> Node | None:
        row = self.find(path)
        return None if row < 0 else self.node(row)

    def under(self, path: NodePath) -> Sequence[int]:
        """Rows of the node at `path`, if there is one, and of all below it."""
        if path == ROOT:
            return range(len(self))
        own = self.find(path)
        below = self.below(path)
        return below if own < 0 else [own, *below]

    def below(self, path: NodePath) -> range:
        """Rows of all nodes strictly below `path`."""
        prefix = path.descendant_prefix.encode()
        start, stop = self._place(prefix), self._place(prefix[:-1] + _AFTER_SLASH)
        return range(start + (start < stop and self._raw(start) == prefix), stop)

    def children(self, path: NodePath) -> list[int]:
        """Rows of the nodes directly below `path`."""
        length = len(path.descendant_prefix.encode())
        return [row for row in self.below(path) if b"/" not in self._raw(row)[length:]]

    def child_names(self, path: NodePath) -> set[str]:
        """Names directly below `path`, also of groups that exist only as part of a path."""
        rows, length = self.below(path), len(path.descendant_prefix.encode())
        names, row = set[str](), rows.start
        while row < rows.stop:
            raw = self._raw(row)
            name, slash, _ = raw[length:].partition(b"/")
            names.add(name.decode())
            # What else is below it is passed over.
            row = self._place(raw[:length] + name + _AFTER_SLASH) if slash else row + 1
        return names

    def node(self, row: int) -> Node:
        return decode_node(self.table, row) if self._listed is None else self._listed[row]

    def patched(self, *, remove: Collection[NodePath], put: Iterable[Node]) -> "Nodes":
        """These nodes without those at the paths to remove, then with the nodes to put."""
        new = Nodes.from_nodes(put)
        if len(self) + len(new) <= _FEW and (len(new) or remove):
            away = {path.raw for path in remove}
            return Nodes.from_nodes([*(n for n in self if n.path.raw not in away), *new])
        gone = {path.raw for path in remove} | set(new.paths)
        rows = [row for row in map(self._find_raw, gone) if row >= 0]
        if not rows and not len(new):
            return self
        kept = np.delete(np.arange(len(self), dtype=np.int64), rows)
        places = np.array([self._place(path) for path in new.paths], dtype=np.int64)
        added = np.arange(len(self), len(self) + len(new), dtype=np.int64)
        order = np.insert(kept, np.searchsorted(kept, places), added)
        return Nodes(Table.concat([self.table, new.table]).take(order))

    def _find_raw(self, raw: bytes) -> int:
        row = self._place(raw)
        return row if row < len(self) and self._raw(row) == raw else -1

    def _place(self, raw: bytes) -> int:
        """Row of the first node that is not before `raw`."""
        if self._paths is not None:
            return bisect_left(self._paths, raw)
        return bisect_left(range(len(self)), raw, key=self._raw)  # faster than listing them all

    def _raw(self, row: int) -> bytes:
        if self._paths is not None:
            return self._paths[row]
        return self.table.string("path").item(row) or b""

    def manifest_ids(self) -> npt.NDArray[np.uint8]:
        """Ids of the manifests of all arrays, (n, 12), repeated where shared."""
        if self._listed is not None:
            arrays = (node.array for node in self._listed if node.array is not None)
            listed = [raw for array in arrays for raw in raw_manifest_ids(array.manifests)]
            return id_column(listed, ManifestId.size)
        stored = self.table.union("node_data").variants[NODE_ARRAY]
        return stored.tables("manifests").rows.struct("object_id").values


def raw_ids(ids: npt.NDArray[np.uint8]) -> list[bytes]:
    """Each row of ids, (n, size)."""
    listed: list[bytes] = np.ascontiguousarray(ids).view(f"V{ids.shape[1]}").ravel().tolist()
    return listed


def raw_paths(table: Table) -> list[bytes]:
    return cast("list[bytes]", table.string("path").to_list())  # every node has one


def decode_nodes(table: Table) -> Nodes:
    """The rows of a snapshot file of either version, in the form and order of version 2."""
    types, names = table.union("node_data").types, table.string("path")
    if not bool(((types == NODE_ARRAY) | (types == NODE_GROUP)).all()):
        raise FormatError("a node is neither an array nor a group")
    table = with_shapes_v2(table)
    if names.strings.take(names.codes).are_ascending():
        return Nodes(table)
    paths = raw_paths(table)
    order = sorted(range(len(paths)), key=paths.__getitem__)
    return Nodes(table.take(np.array(order)), [paths[row] for row in order])


def decode_node(table: Table, row: int) -> Node:
    path = table.string("path").text(row) or ""
    data = table.union("node_data")
    kind, at = int(data.types[row]), int(data.index[row])
    try:
        return Node(
            id=NodeId(table.struct("id").values[row].tobytes()),
            path=NodePath(path),
            user_data=table.string("user_data").item(row) or b"",
            array=_decode_array(data.variants[NODE_ARRAY], at) if kind == NODE_ARRAY else None,
        )
    except InvalidInputError as error:
        raise FormatError(f"node path is not valid: {error}") from error


def _decode_array(arrays: Table, row: int) -> ArrayData:
    shape = arrays.tables("shape_v2")
    axes = slice(int(shape.splits[row]), int(shape.splits[row + 1]))
    names = arrays.tables("dimension_names")
    named = range(int(names.splits[row]), int(names.splits[row + 1]))
    text = names.rows.string("name").text
    return ArrayData(
        shape=tuple(shape.rows.scalar("array_length").values[axes].tolist()),
        num_chunks=tuple(shape.rows.scalar("num_chunks").values[axes].tolist()),
        dimension_names=tuple(text(at) or None for at in named) if names.present[row] else None,
        manifests=decode_manifest_refs(arrays.tables("manifests"), row),
    )


def decode_manifest_refs(column: TableVectorColumn, row: int) -> Sequence[ManifestRef]:
    start, stop = int(column.splits[row]), int(column.splits[row + 1])
    if stop - start > _FEW:
        extents, ids = column.rows.vector("extents"), column.rows.struct("object_id").values
        splits = extents.splits[start : stop + 1]
        if ndim := even_length(splits):  # None if they differ, 0 if they state no extents
            pairs = np.ascontiguousarray(extents.values[splits[0] : splits[-1]]).view("<u4")
            return ManifestRefs(ids[start:stop], pairs.reshape(stop - start, ndim, 2))
    return tuple(_decode_manifest_ref(column.rows, at) for at in range(start, stop))


def _decode_manifest_ref(refs: Table, row: int) -> ManifestRef:
    extents = np.ascontiguousarray(refs.vector("extents").row(row)).view("<u4")
    return ManifestRef(
        id=ManifestId(refs.struct("object_id").values[row].tobytes()),
        extents=tuple((start, stop) for start, stop in extents.tolist()),
    )


def node_table(nodes: Sequence[Node]) -> Table:
    """Rows in the order given."""
    arrays = [node.array for node in nodes if node.array is not None]
    is_array = np.array([node.is_array for node in nodes], dtype=np.bool_)
    before = np.cumsum(is_array)
    data = UnionColumn(
        np.where(is_array, NODE_ARRAY, NODE_GROUP).astype(np.uint8),
        np.where(is_array, before - 1, np.arange(len(nodes)) - before),
        {
            NODE_ARRAY: _array_table(arrays),
            NODE_GROUP: Table.build(GROUP_NODE_DATA, len(nodes) - len(arrays)),
        },
    )
    return Table.build(
        NODE_SNAPSHOT,
        len(nodes),
        id=StructColumn.of(id_column([node.id.raw for node in nodes], NodeId.size)),
        path=StringColumn.of(Strings.from_list([node.path.raw for node in nodes])),
        # Thousands of arrays often have the same metadata, which is stored once.
        user_data=StringColumn.from_list([node.user_data for node in nodes]),
        node_data=data,
    )


def _array_table(arrays: Sequence[ArrayData]) -> Table:
    refs = [ref for array in arrays for ref in array.manifests]
    names = [array.dimension_names for array in arrays]
    return Table.build(
        ARRAY_NODE_DATA,
        len(arrays),
        shape=_no_shapes(len(arrays)),
        dimension_names=TableVectorColumn(
            splits_of(np.array([len(each or ()) for each in names], dtype=np.int64)),
            _name_table([name for each in names for name in each or ()]),
            np.array([each is not None for each in names], dtype=np.bool_),
        ),
        manifests=TableVectorColumn.of(
            _manifest_ref_table(refs), _splits(len(array.manifests) for array in arrays)
        ),
        shape_v2=TableVectorColumn.of(
            shape_table(
                np.array([size for array in arrays for size in array.shape], dtype=np.uint64),
                np.array([size for array in arrays for size in array.num_chunks], dtype=np.uint64),
            ),
            _splits(len(array.shape) for array in arrays),
        ),
    )


def _no_shapes(count: int) -> VectorColumn:
    """The field of version 1: required, and empty since version 2."""
    none = np.zeros((0, 16), dtype=np.uint8)
    return VectorColumn.of(none, np.zeros(count + 1, dtype=np.int64))


def _name_table(names: Sequence[str | None]) -> Table:
    return Table.build(DIMENSION_NAME, len(names), name=StringColumn.from_list(names))


def _manifest_ref_table(refs: Sequence[ManifestRef]) -> Table:
    extents = np.array([pair for ref in refs for pair in ref.extents], dtype="<u4").reshape(-1, 2)
    return Table.build(
        MANIFEST_REF,
        len(refs),
        object_id=StructColumn.of(id_column([ref.id.raw for ref in refs], ManifestId.size)),
        extents=VectorColumn.of(extents.view(np.uint8), _splits(len(ref.extents) for ref in refs)),
    )


def shape_table(lengths: npt.NDArray[np.uint64], num_chunks: npt.NDArray[np.uint64]) -> Table:
    """One row per axis; both fields are written even where 0, as readers expect them."""
    if len(num_chunks) and int(num_chunks.max()) >= 2**32:
        raise FormatError("an axis has more chunks than the format can count")
    return Table.build(
        DIMENSION_SHAPE_V2,
        len(lengths),
        array_length=ScalarColumn.of(lengths, "u8"),
        num_chunks=ScalarColumn.of(num_chunks.astype(np.uint32), "u4"),
    )


def _splits(counts: Iterable[int]) -> npt.NDArray[np.int64]:
    return splits_of(np.array(list(counts), dtype=np.int64))


def id_column(raw: Sequence[bytes], size: int) -> npt.NDArray[np.uint8]:
    """Ids as rows, (n, size)."""
    return np.frombuffer(b"".join(raw), dtype=np.uint8).reshape(-1, size)


def with_shapes_v2(table: Table) -> Table:
    """The rows with every array's shape in the form of version 2.

    Version 1 stored the length of a chunk; writers that only know the number of chunks work it
    back (0 for an axis of length 0), which gives the same number again.
    """
    data = table.union("node_data")
    arrays = data.variants[NODE_ARRAY]
    current = arrays.tables("shape_v2")
    if current.present.all():
        return table
    old = arrays.vector("shape")
    pairs = np.ascontiguousarray(old.values).view("<u8").reshape(-1, 2)
    lengths, chunk_lengths = pairs[:, 0], np.maximum(pairs[:, 1], np.uint64(1))
    num_chunks = lengths // chunk_lengths + (lengths % chunk_lengths > 0)
    converted = TableVectorColumn.of(shape_table(lengths, num_chunks), old.splits)
    both = TableVectorColumn.concat([current, converted])
    every = np.arange(len(arrays), dtype=np.int64)
    shapes = both.take(np.where(current.present, every, every + len(arrays)))
    arrays = arrays.replace(shape=_no_shapes(len(arrays)), shape_v2=shapes)
    variants = {**data.variants, NODE_ARRAY: arrays}
    return table.replace(node_data=UnionColumn(data.types, data.index, variants))


# -------------------------------------------------------------------------------------------------
# The nodes of a snapshot as files of version 1 have them: shapes with the length of a chunk.


def with_shapes_v1(table: Table) -> Table:
    """The inverse of `with_shapes_v2`, but for what the numbers of chunks do not tell.

    The length of a chunk is that of the Zarr metadata. Where that has none, it is worked back
    from the number of chunks, which readers get again then.
    """
    data = table.union("node_data")
    arrays = data.variants[NODE_ARRAY]
    if not len(arrays):
        return table
    current = arrays.tables("shape_v2")
    lengths = current.rows.scalar("array_length").values
    counts = np.maximum(current.rows.scalar("num_chunks").values.astype(np.uint64), np.uint64(1))
    chunks = np.maximum(lengths // counts + (lengths % counts > 0), np.uint64(1))
    rows = np.flatnonzero(data.types == NODE_ARRAY)
    user_data = table.string("user_data")
    for row, at in zip(rows.tolist(), data.index[rows].tolist(), strict=True):
        axes = slice(int(current.splits[at]), int(current.splits[at + 1]))
        known = _chunk_shape(user_data.item(row) or b"")
        if known is not None and len(known) == axes.stop - axes.start:
            chunks[axes] = known
    pairs = np.stack([lengths, chunks], axis=1).astype("<u8").view(np.uint8).reshape(-1, 16)
    none = TableVectorColumn(
        np.zeros(len(arrays) + 1, dtype=np.int64),
        Table.empty(DIMENSION_SHAPE_V2),
        np.zeros(len(arrays), dtype=np.bool_),
    )
    arrays = arrays.replace(shape=VectorColumn.of(pairs, current.splits), shape_v2=none)
    variants = {**data.variants, NODE_ARRAY: arrays}
    return table.replace(node_data=UnionColumn(data.types, data.index, variants))


@lru_cache(maxsize=10_000)  # the same arrays are written with every commit
def _chunk_shape(user_data: bytes) -> tuple[int, ...] | None:
    """The chunk shape of a regular chunk grid; None if there is none."""
    try:
        document = json.loads(user_data)
    except (ValueError, RecursionError):
        return None
    match document:
        case {"chunk_grid": {"configuration": {"chunk_shape": list() as sizes}}}:
            if all(type(size) is int and 1 <= size < 2**64 for size in sizes):
                return tuple(sizes)
    return None


# -------------------------------------------------------------------------------------------------
# The nodes of a snapshot file, of which a few are looked up before all are decoded.
#
# Opening one array then does not wait for the others. Files may hold their nodes in another order,
# so a node that bisection does not find is looked for among all.

# Each costs about a tenth of decoding thousands of nodes all at once, and half of decoding a few.
_FEW_LOOKUPS, _LOOKUPS_OF_MANY, _MANY_NODES = 2, 4, 1000


class StoredNodes(Nodes):
    """The nodes of the file with this payload, of either version.

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
        """Paths in the order of the file until all nodes are decoded; invalid UTF-8 is replaced."""
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
    """Name of the snapshot, for messages."""
    return f"snapshot {SnapshotId(decode(payload, SNAPSHOT_HEAD).struct('id').values[0].tobytes())}"
