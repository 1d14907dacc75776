"""Ways to change the tables and files of a repository, for damages.py to plant."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from frazil.engine.files.object_keys import (
    CHUNKS,
    MANIFESTS,
    OVERWRITTEN,
    REPO_INFO,
    TRANSACTIONS,
    V1_MAIN_BRANCH,
)
from frazil.flatbuf.columns import (
    ScalarColumn,
    StringColumn,
    StringVectorColumn,
    StructColumn,
    VectorColumn,
)
from frazil.flatbuf.table import Table, TableVectorColumn, UnionColumn
from frazil.format.envelope import FileType
from frazil.format.schemas import METADATA_ITEM, MOVE_OPERATION, NODE_ARRAY
from frazil.ids import INITIAL_SNAPSHOT, SnapshotId, format_base32
from frazil.objectstore.memory import MemoryStore
from tests.verify.damage import (
    keys,
    manifest_of_a,
    manifest_with,
    older_key,
    raw,
    removed,
    reversed_rows,
    rewrite,
    rewrite_manifest,
    tip_key,
    truncated,
    twice,
    with_arrays,
    with_byte,
    with_refs,
    with_rows,
    with_scalar,
    with_sizes,
    with_string,
    with_struct,
)

SHUFFLED = "snapshots"
type Plant = Callable[[MemoryStore], None]
type Change = Callable[[Table], Table]
type Numbers = npt.NDArray[Any]

ZEROS8, ZEROS12 = bytes(8), bytes(12)
NO_PARENT = StructColumn(np.zeros((1, 12), dtype=np.uint8), np.zeros(1, dtype=np.bool_))
SPEC_AT, TYPE_AT, COMPRESSION_AT, WRITER_AT = 36, 37, 38, 12


def repo_info(change: Change) -> Plant:
    return lambda store: rewrite(store, REPO_INFO, change)


def tip(change: Change) -> Plant:
    return lambda store: rewrite(store, tip_key(store), change)


def tip_log(change: Change) -> Plant:
    return lambda store: rewrite(store, tip_key(store, TRANSACTIONS), change)


def log_of(message: str, change: Change) -> Plant:
    return lambda store: rewrite(store, older_key(store, message, TRANSACTIONS), change)


def of_refs(change: Change) -> Plant:
    """In the manifest of /g/b: three native references."""
    return lambda store: rewrite_manifest(
        store, manifest_of_a(store), lambda root: with_refs(root, change)
    )


def of_virtual(change: Change) -> Plant:
    """In a manifest whose last reference is virtual."""
    return lambda store: rewrite_manifest(
        store,
        manifest_with(store, lambda refs: bool(refs.string("location").present[-1])),
        lambda root: with_refs(root, change),
    )


# Changes of tables


def reversed_in(name: str) -> Change:
    return lambda root: with_rows(root, name, reversed_rows)


def repeated_in(name: str) -> Change:
    return lambda root: with_rows(root, name, twice)


def flags(**lists: list[int]) -> Change:
    def change(root: Table) -> Table:
        columns = {
            f"{name}_feature_flags": VectorColumn.of(
                np.array(numbers, dtype=np.uint16), np.array([0, len(numbers)])
            )
            for name, numbers in lists.items()
        }
        return root.replace(**columns)

    return change


def deleted_tags(*names: str) -> Change:
    return lambda root: root.replace(deleted_tags=StringVectorColumn.from_lists([names]))


def without_branch(name: bytes) -> Change:
    def change(table: Table) -> Table:
        kept = [row for row, each in enumerate(table.string("name").to_list()) if each != name]
        return table.take(np.array(kept))

    return lambda root: with_rows(root, "branches", change)


def bad_metadata(name: str) -> Change:
    """An item whose value is no FlexBuffer."""
    item = Table.build(
        METADATA_ITEM,
        1,
        name=StringColumn.from_list(["k"]),
        value=StringColumn.from_list([b"\xff\xff\xff"]),
    )
    return lambda root: root.replace(**{name: TableVectorColumn.of(item)})


def parents(change: Callable[[Numbers], Numbers]) -> Change:
    def with_parents(table: Table) -> Table:
        values = change(table.scalar("parent_offset").values.copy())
        return table.replace(parent_offset=ScalarColumn.of(values, "i4"))

    return lambda root: with_rows(root, "snapshots", with_parents)


def in_a_circle(rows: Numbers) -> Numbers:
    """The root becomes a child of its child."""
    root = int(np.flatnonzero(rows < 0)[0])
    rows[root] = int(np.flatnonzero(rows == root)[0])
    return rows


def snapshots_reversed(root: Table) -> Table:
    """In the other order, with all that points to them."""
    count = len(root.tables(SHUFFLED).rows)

    def turned(name: str) -> Change:
        def change(table: Table) -> Table:
            old = table.scalar(name).values
            rows = np.where(old.astype(np.int64) < 0, -1, count - 1 - old.astype(np.int64))
            return table.replace(**{name: ScalarColumn.of(rows.astype(old.dtype))})

        return change

    root = with_rows(root, SHUFFLED, lambda rows: reversed_rows(turned("parent_offset")(rows)))
    for refs in ("branches", "tags"):
        root = with_rows(root, refs, turned("snapshot_index"))
    return root


def out_of_range(rows: Numbers) -> Numbers:
    rows[0] = 1000
    return rows


def node(path: bytes, name: str, value: bytes) -> Change:
    """A text of the node at `path` changed, the order of nodes kept."""

    def change(table: Table) -> Table:
        row = table.string("path").to_list().index(path)
        return with_string(table, name, row, value)

    return lambda root: with_rows(root, "nodes", change)


def node_id(path: bytes, value: bytes) -> Change:
    def change(table: Table) -> Table:
        return with_struct(table, "id", table.string("path").to_list().index(path), value)

    return lambda root: with_rows(root, "nodes", change)


def same_ids(table: Table) -> Table:
    return with_struct(table, "id", 1, table.struct("id").values[0].tobytes())


def without_node(path: bytes) -> Change:
    def change(table: Table) -> Table:
        row = table.string("path").to_list().index(path)
        return table.take(np.delete(np.arange(len(table)), row))

    return lambda root: with_rows(root, "nodes", change)


def kind_of_node(path: bytes, number: int) -> Change:
    """The type of the node's data changed to one that has as many rows."""

    def change(table: Table) -> Table:
        row = table.string("path").to_list().index(path)
        data = table.union("node_data")
        types, index = data.types.copy(), data.index.copy()
        types[row], index[row] = number, 0
        return table.replace(node_data=UnionColumn(types, index, data.variants))

    return lambda root: with_rows(root, "nodes", change)


def manifests_of_arrays(change: Change) -> Change:
    """Manifest refs of all arrays changed."""

    def of_arrays(arrays: Table) -> Table:
        column = arrays.tables("manifests")
        changed = TableVectorColumn(column.splits, change(column.rows), column.present)
        return arrays.replace(manifests=changed)

    return lambda root: with_arrays(root, of_arrays)


def extents(change: Callable[[Numbers], None]) -> Change:
    def of_refs_(refs: Table) -> Table:
        column = refs.vector("extents")
        values = np.ascontiguousarray(column.values).view("<u4").copy()
        change(values)
        return refs.replace(extents=VectorColumn.of(values.view(np.uint8), column.splits))

    return manifests_of_arrays(of_refs_)


def overlapping(values: Numbers) -> None:
    """All of /a's manifests from 0 on; the array comes first."""
    values[:2, 0] = 0


def backwards(values: Numbers) -> None:
    values[0] = (9, 3)


def elsewhere(values: Numbers) -> None:
    values[0] = (0, 1)


def fewer_extents(refs: Table) -> Table:
    """The first ref without any."""
    column = refs.vector("extents")
    splits = column.splits - (column.splits > 0) * int(column.splits[1])
    return refs.replace(extents=VectorColumn.of(column.values[int(column.splits[1]) :], splits))


def shape(change: Change) -> Change:
    def of_arrays(arrays: Table) -> Table:
        column = arrays.tables("shape_v2")
        changed = TableVectorColumn(column.splits, change(column.rows), column.present)
        return arrays.replace(shape_v2=changed)

    return lambda root: with_arrays(root, of_arrays)


def dimension_name(arrays: Table) -> Table:
    column = arrays.tables("dimension_names")
    rows = with_string(column.rows, "name", 0, b"other")
    return arrays.replace(dimension_names=TableVectorColumn(column.splits, rows, column.present))


def no_shape(arrays: Table) -> Table:
    """Of version 2; that of version 1 in its place."""
    column = arrays.tables("shape_v2")
    lengths = column.rows.scalar("array_length").values
    pairs = np.stack([lengths, np.full_like(lengths, 2)], axis=1).astype("<u8")
    absent = TableVectorColumn(
        np.zeros(len(arrays) + 1, dtype=np.int64),
        column.rows.take(slice(0)),
        np.zeros(len(arrays), dtype=np.bool_),
    )
    return arrays.replace(
        shape=VectorColumn.of(pairs.view(np.uint8).reshape(-1, 16), column.splits),
        shape_v2=absent,
    )


def listed(change: Change) -> Change:
    return lambda root: with_rows(root, "manifest_files_v2", change)


def more_size(root: Table) -> Table:
    rows = root.tables("manifest_files_v2").rows
    counts = rows.scalar("num_chunk_refs").values
    return with_sizes(root, rows.scalar("size_bytes").values + np.uint64(1), counts)


def more_refs(root: Table) -> Table:
    rows = root.tables("manifest_files_v2").rows
    counts = rows.scalar("num_chunk_refs").values + np.uint32(1)
    return with_sizes(root, rows.scalar("size_bytes").values, counts)


def one_more_listed(table: Table) -> Table:
    """The id of a manifest that is there, and that this snapshot does not use."""
    return with_struct(table.take(np.array([0, *range(len(table))])), "id", 0, ZEROS12)


def old_list(root: Table) -> Table:
    record = np.zeros((1, 32), dtype=np.uint8)
    return root.replace(manifest_files=VectorColumn.of(record, np.array([0, 1])))


def named_parent(root: Table) -> Table:
    return root.replace(parent_id=StructColumn.of(np.zeros((1, 12), dtype=np.uint8)))


# Changes of manifests


def index_of(row: int, *place: int) -> Change:
    def change(refs: Table) -> Table:
        column = refs.vector("index")
        parts = [column.row(at) for at in range(len(column))]
        parts[row] = np.array(place, dtype=np.uint32)
        splits = np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)
        return refs.replace(index=VectorColumn.of(np.concatenate(parts), splits))

    return change


def two_kinds(refs: Table) -> Table:
    return with_string(refs, "inline", 0, b"both")


def no_kind(refs: Table) -> Table:
    column = refs.struct("chunk_id")
    present = column.present.copy()
    present[0] = False
    return refs.replace(chunk_id=StructColumn(column.values, present))


def last_scalar(name: str, value: int) -> Change:
    return lambda refs: with_scalar(refs, name, len(refs) - 1, value)


def last_location(value: bytes) -> Change:
    return lambda refs: with_string(refs, "location", len(refs) - 1, value)


def bad_frame(store: MemoryStore) -> None:
    """A compressed location, in a manifest without a dictionary."""

    def change(refs: Table) -> Table:
        refs = with_string(refs, "location", len(refs) - 1, None)
        return with_string(refs, "compressed_location", len(refs) - 1, b"no frame")

    rewrite_manifest(
        store,
        manifest_with(store, lambda refs: bool(refs.string("location").present[-1])),
        lambda root: with_scalar(with_refs(root, change), "compression_algorithm", 0, 1),
    )


def foreign_array_behind(root: Table) -> Table:
    """With the same chunks, and an id that should come first."""
    arrays = root.tables("arrays").rows.take(np.array([0, 0]))
    return root.replace(arrays=TableVectorColumn.of(with_struct(arrays, "node_id", 1, ZEROS8)))


def other_node(root: Table) -> Table:
    arrays = with_struct(root.tables("arrays").rows, "node_id", 0, ZEROS8)
    return root.replace(arrays=TableVectorColumn.of(arrays))


# Changes of logs


def ids_in(name: str, *ids: bytes) -> Change:
    values = np.frombuffer(b"".join(ids), dtype=np.uint8).reshape(-1, 8)
    return lambda root: root.replace(**{name: VectorColumn.of(values, np.array([0, len(ids)]))})


def in_both_lists(root: Table) -> Table:
    raw_id = root.vector("deleted_groups").values[0].tobytes()
    return ids_in("updated_groups", raw_id)(root)


def reversed_ids(name: str) -> Change:
    def change(root: Table) -> Table:
        values = root.vector(name).values[::-1]
        return root.replace(**{name: VectorColumn.of(values, np.array([0, len(values)]))})

    return change


def reversed_chunks(root: Table) -> Table:
    arrays = root.tables("updated_chunks").rows
    chunks = arrays.tables("chunks")
    changed = TableVectorColumn(chunks.splits, reversed_rows(chunks.rows), chunks.present)
    return root.replace(updated_chunks=TableVectorColumn.of(arrays.replace(chunks=changed)))


def longer_coordinates(root: Table) -> Table:
    arrays = root.tables("updated_chunks").rows
    chunks = arrays.tables("chunks")
    coords = VectorColumn.regular(np.zeros((len(chunks.rows), 3), dtype=np.uint32))
    rows = chunks.rows.replace(coords=coords)
    changed = TableVectorColumn(chunks.splits, rows, chunks.present)
    return root.replace(updated_chunks=TableVectorColumn.of(arrays.replace(chunks=changed)))


def still_there(root: Table) -> Table:
    table = with_string(root.tables("moved_nodes").rows, "from", 0, b"/p")
    return root.replace(moved_nodes=TableVectorColumn.of(table))


def without_ids(name: str) -> Change:
    return ids_in(name)


def initial_log(store: MemoryStore) -> None:
    key = f"{TRANSACTIONS}{INITIAL_SNAPSHOT}"
    rewrite(store, key, ids_in("new_groups", ZEROS8))


def nameless(root: Table) -> Table:
    return with_rows(root, "branches", lambda rows: with_string(rows, "name", 0, b""))


def pruned_logs(table: Table) -> Table:
    """The first snapshot needs the log of one that is not there."""
    count = len(table)
    splits = np.concatenate([[0], np.ones(count, dtype=np.int64)])
    present = np.arange(count) == 0
    column = VectorColumn(np.zeros((1, 12), dtype=np.uint8), splits, present)
    return table.replace(pruned_ancestor_tx_logs=column)


def with_a_move(root: Table) -> Table:
    columns: dict[str, Any] = {
        "from": StringColumn.from_list(["/a"]),
        "to": StringColumn.from_list(["/z"]),
        "node_id": StructColumn.of(np.zeros((1, 8), dtype=np.uint8)),
        "node_type": ScalarColumn.of([0], "u1"),
    }
    moves = Table.build(MOVE_OPERATION, 1, **columns)
    return root.replace(moved_nodes=TableVectorColumn.of(moves))


# Changes of files


def missing(folder: str) -> Plant:
    return lambda store: removed(store, tip_key(store, folder))


def missing_manifest(store: MemoryStore) -> None:
    removed(store, manifest_of_a(store))


def missing_chunk(store: MemoryStore) -> None:
    removed(store, keys(store, CHUNKS)[0])


def shorter_chunk(store: MemoryStore) -> None:
    truncated(store, keys(store, CHUNKS)[0], 5)


def renamed(folder: str) -> Plant:
    """Under the name of another file of its kind."""

    def plant(store: MemoryStore) -> None:
        first, second = keys(store, folder)[:2]
        store.put(second, bytes(store.get(first).data))

    return plant


def page(change: Callable[[MemoryStore, str], None]) -> Plant:
    """The second page of the ops log."""

    def plant(store: MemoryStore) -> None:
        name = raw(store, REPO_INFO).root.string("repo_before_updates").text(0)
        change(store, f"{OVERWRITTEN}{name}")

    return plant


def circular_pages(store: MemoryStore) -> None:
    name = raw(store, REPO_INFO).root.string("repo_before_updates").text(0)
    column = StringColumn.from_list([name])
    rewrite(store, f"{OVERWRITTEN}{name}", lambda root: root.replace(repo_before_updates=column))


def unknown_update(store: MemoryStore) -> None:
    """A type from the future, written over the number of one that has the same fields."""

    def change(root: Table) -> Table:
        return with_rows(root, "latest_updates", lambda rows: rows.take(np.zeros(0, dtype=int)))

    rewrite(store, REPO_INFO, change)


def updated_at_once(root: Table) -> Table:
    return with_rows(root, "latest_updates", lambda rows: with_scalar(rows, "updated_at", 0, 1))


def of_other_type(folder: str, kind: FileType) -> Plant:
    return lambda store: with_byte(store, tip_key(store, folder), TYPE_AT, kind)


def config_of_nonsense(store: MemoryStore) -> None:
    column = StringColumn.from_list([b"\x01\x02\xff\xff"])
    rewrite(store, REPO_INFO, lambda root: root.replace(config=column))


def dangling_v1_parent(store: MemoryStore) -> None:
    rewrite(store, tip_key(store), named_parent)


def circular_v1_parents(store: MemoryStore) -> None:
    own = SnapshotId.parse(tip_key(store).partition("/")[2]).raw
    values = np.frombuffer(own, dtype=np.uint8).reshape(1, 12)
    rewrite(store, tip_key(store), lambda root: root.replace(parent_id=StructColumn.of(values)))


def other_v1_target(store: MemoryStore) -> None:
    store.put(V1_MAIN_BRANCH, json.dumps({"snapshot": format_base32(ZEROS12)}).encode())


def newer_file(store: MemoryStore) -> None:
    with_byte(store, keys(store, MANIFESTS)[0], SPEC_AT, 2)


def put(key: str, data: bytes) -> Plant:
    def plant(store: MemoryStore) -> None:
        store.put(key, data)

    return plant


def some(folder: str, change: Callable[[MemoryStore, str], None]) -> Plant:
    return lambda store: change(store, tip_key(store, folder))


def parent_as_array(root: Table) -> Table:
    """The parent of /g/b turned into an array."""
    return kind_of_node(b"/g", NODE_ARRAY)(root)
