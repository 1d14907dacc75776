"""Compares a repository whose metadata was rewritten with the old one, in everything."""

from frazil.assets.files import Files
from frazil.errors import FormatError, ObjectNotFoundError
from frazil.format.chunk_refs import ChunkRefs
from frazil.format.nodes import ArrayData, Node
from frazil.format.snapshot import Snapshot
from frazil.maintenance.copying.derived import (
    DerivedPlan,
    chunks_to_copy,
    target_files,
)
from frazil.maintenance.executor import Executor
from frazil.maintenance.id_sets import IdSet
from frazil.maintenance.inventory import FileKind, StoredInventory, keys_of


def require_same(plan: DerivedPlan, executor: Executor) -> None:
    """Compares history, nodes and references, and that chunks exist. Raises FormatError."""
    old, new, count = plan.repository.files, target_files(plan), len(plan.info.snapshots)
    for row in range(count):
        _compare_snapshots(plan, old, new, row)
        executor.report("comparing snapshots", row + 1, count)
    _require_chunks(plan, executor)


def _compare_snapshots(plan: DerivedPlan, old: Files, new: Files, row: int) -> None:
    before, after = plan.info.snapshots, plan.made.snapshots
    listed = after.find(plan.rules.names.snapshot(before.id(row)))
    _require(listed >= 0, f"snapshot {before.id(row)}")
    _compare_history(plan, row, listed, new.fetch_snapshot(after.id(listed)))
    nodes = old.fetch_snapshot(before.id(row)).nodes, new.fetch_snapshot(after.id(listed)).nodes
    _require(nodes[0].paths == nodes[1].paths, f"the nodes of snapshot {before.id(row)}")
    for one, other in zip(*nodes, strict=True):
        _compare_nodes(old, new, one, other)


def _compare_history(plan: DerivedPlan, row: int, listed: int, made: Snapshot) -> None:
    before, after, names = plan.info.snapshots, plan.made.snapshots, plan.rules.names
    what = f"of snapshot {before.id(row)}"
    for message in (made.message, after.message(listed)):
        _require(message == before.message(row), f"the message {what}")
    for time_us in (made.flushed_at_us, after.flushed_at(listed)):
        _require(time_us == before.flushed_at(row), f"the time {what}")
    for metadata in (made.metadata, after.metadata(listed)):
        _require(metadata == before.metadata(row), f"the metadata {what}")
    parents = before.parent(row), after.parent(listed)
    ids = [
        None if at < 0 else table.id(at) for table, at in zip((before, after), parents, strict=True)
    ]
    expected = None if ids[0] is None else names.snapshot(ids[0])
    _require(ids[1] == expected, f"the parent {what}")


def _compare_nodes(old: Files, new: Files, before: Node, after: Node) -> None:
    what = f"node {before.path}"
    _require((before.id, before.user_data) == (after.id, after.user_data), what)
    if before.array is None or after.array is None:
        _require(before.array is after.array, what)
        return
    _require(_shape(before.array) == _shape(after.array), f"the shape of {what}")
    refs = [_refs(files, node) for files, node in ((old, before), (new, after))]
    _require(refs[0].equals(refs[1]), f"the chunks of {what}")


def _shape(array: ArrayData) -> tuple[object, ...]:
    return array.shape, array.num_chunks, array.dimension_names


def _refs(files: Files, node: Node) -> ChunkRefs:
    """All references of an array inside its grid."""
    array = node.array
    if array is None:
        return ChunkRefs.empty(0)
    ndim = len(array.shape)
    found = [ChunkRefs.empty(ndim)]
    for ref in array.manifests:
        refs = files.fetch_manifest(ref.id).arrays.get(node.id)
        if refs is not None and refs.ndim == ndim:
            found.append(refs)
    return ChunkRefs.concat(found).within(array.num_chunks)


def _require_chunks(plan: DerivedPlan, executor: Executor) -> None:
    needed = chunks_to_copy(executor, plan.survey, plan.rules)
    there = StoredInventory(plan.target).pieces(FileKind.CHUNK)
    found = IdSet.union(IdSet.of(piece.ids) for piece in there)
    missing = needed.ids()[~found.contains(needed.ids())]
    if len(missing):
        raise ObjectNotFoundError(keys_of(FileKind.CHUNK, missing[:1])[0])


def _require(same: bool, what: str) -> None:  # noqa: FBT001 -- a condition
    if not same:
        raise FormatError(f"{what} did not come through the migration as they were")
