"""The metadata tables by name: what they are, their columns, how they are read."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.clock import from_datetime
from frazil.engine.changes.chunk_reads import refs_in
from frazil.engine.refs.version import Exactly, find_ref
from frazil.engine.repository import Repository
from frazil.engine.session.session import Session
from frazil.errors import InvalidInputError, NodeNotFoundError, RefNotFoundError
from frazil.flatbuf.columns import StringColumn
from frazil.format.chunk_refs import ChunkRefs, RefKind
from frazil.format.metadata import decode_metadata_of
from frazil.format.nodes import Node
from frazil.ids import ManifestId, SnapshotId, format_ids
from frazil.lazy import lazy_module
from frazil.paths import NodePath
from frazil.zarrstore.virtual_listing import complete_locations

if TYPE_CHECKING:
    from frazil.api import updates
else:  # with all public names of frazil; one table needs it, and every worker imports this module
    updates = lazy_module("frazil.api.updates")

# A repository as a metadata table sees it, on the driver and on executors.


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRequest:
    """A request for a metadata table, beside its version. Each table uses some of the fields."""

    group: str = "/"
    variables: tuple[str, ...] | None = None
    as_of_us: int | None = None
    start: str | None = None  # the option `from`
    end: str | None = None  # the option `to`
    partition_bytes: int
    batch_rows: int


class TableContext:
    """A repository, at a snapshot if the table is of one."""

    def __init__(
        self, repository: Repository, snapshot: SnapshotId | None, request: TableRequest
    ) -> None:
        self.repository = repository
        self.request = request
        self._snapshot = snapshot

    @property
    def snapshot(self) -> SnapshotId:
        if self._snapshot is None:
            raise InvalidInputError("this table is of no snapshot")
        return self._snapshot

    @cached_property
    def session(self) -> Session:
        return self.repository.readonly_session(Exactly(self.snapshot))

    def nodes(self) -> Iterator[Node]:
        """Nodes at or below the requested group."""
        path = NodePath(self.request.group)
        self.session.node(path)  # raises if there is none
        return self.session.nodes(path)

    def arrays(self) -> list[Node]:
        """Arrays that `variables` name, by path or by path below the group."""
        found = [node for node in self.nodes() if node.array is not None]
        wanted = self.request.variables
        if wanted is None:
            return found
        group = NodePath(self.request.group)
        paths = [_path_in(group, name) for name in wanted]
        by_path = {node.path: node for node in found}
        missing = [str(path) for path in paths if path not in by_path]
        if missing:
            raise NodeNotFoundError(
                f"no array at {', '.join(missing)} in group {self.request.group!r}"
            )
        return [by_path[path] for path in dict.fromkeys(paths)]


def _path_in(group: NodePath, name: str) -> NodePath:
    return NodePath(name if name.startswith("/") else f"{str(group).rstrip('/')}/{name}")


def find_version(repository: Repository, name: str) -> SnapshotId:
    """The snapshot of that id, or of the branch or tag of that name; see `find_ref`."""
    found = find_ref(repository.branches(), repository.tags(), name)
    if found is not None:
        return found
    try:
        snapshot = SnapshotId.parse(name)
    except InvalidInputError:
        raise RefNotFoundError(f"no tag, branch or snapshot {name!r}") from None
    repository.lookup_snapshot(snapshot)
    return snapshot


def pack[T](items: Sequence[tuple[T, int]], limit: int) -> list[tuple[T, ...]]:
    """Items in order, in groups whose weights add up to `limit` at most, or of one item."""
    groups: list[list[T]] = []
    weight = limit
    for item, own in items:
        if weight + own > limit or not groups:
            groups.append([])
            weight = 0
        groups[-1].append(item)
        weight += own
    return [tuple(group) for group in groups]


# Columns of metadata tables, from numpy and text to Arrow. Nothing is done per row in Python.


def text_column(column: StringColumn) -> pa.Array:
    """Each distinct string becomes an object once."""
    few = column.pruned()
    texts = pa.array(few.strings.to_texts(), pa.string())
    return texts.take(pa.array(few.codes, mask=few.codes < 0))


def id_column(raw: npt.NDArray[np.uint8], present: npt.NDArray[np.bool_]) -> pa.Array:
    """Column of raw ids (n, size) as text, NULL where there is none."""
    texts = pa.array(format_ids(raw[present]), pa.string())
    places = np.cumsum(present) - 1
    return texts.take(pa.array(places, mask=~present))


def index_column(index: npt.NDArray[Any]) -> pa.Array:
    """Rows of (n, ndim) as lists."""
    count, ndim = index.shape
    edges = np.arange(count + 1, dtype=np.int32) * ndim
    values = np.ascontiguousarray(index, dtype=np.int64).reshape(-1)
    return pa.ListArray.from_arrays(pa.array(edges, pa.int32()), pa.array(values))


def long_column(numbers: npt.NDArray[Any], null: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    return pa.array(numbers.astype(np.int64), mask=null)


def time_column(micros: npt.ArrayLike, null: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """TIMESTAMP of microseconds since 1970."""
    counted = np.asarray(micros).astype(np.int64)
    return pa.array(counted, mask=null).view(pa.timestamp("us", tz="UTC"))


def repeat_column(text: str, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(text, pa.string()), count)


def slice_batches(batch: pa.RecordBatch, batch_rows: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, batch.num_rows, batch_rows):
        yield batch.slice(start, batch_rows)


def batch_of(columns: dict[str, Sequence[object] | pa.Array]) -> pa.RecordBatch:
    """Record batch of lists and Arrow arrays, by name."""
    return pa.RecordBatch.from_pydict(columns)


# Contents of a snapshot, and changes between two: nodes, manifests, diff.

NODES = (
    "path STRING, type STRING, node_id STRING, shape ARRAY<BIGINT>, chunk_grid ARRAY<BIGINT>,"
    " chunk_shape ARRAY<BIGINT>, dimension_names ARRAY<STRING>, data_type STRING,"
    " attributes STRING, manifests BIGINT, metadata STRING"
)
MANIFESTS = "manifest_id STRING, size_bytes BIGINT, num_chunk_refs BIGINT, arrays ARRAY<STRING>"
DIFF = "change STRING, path STRING, chunk ARRAY<BIGINT>, moved_to STRING"

_AT_ONCE = 1024  # nodes of a batch: the documents of arrays may be long
_LONGS, _TEXTS = pa.list_(pa.int64()), pa.list_(pa.string())


def read_nodes(context: TableContext) -> Iterator[pa.RecordBatch]:
    """Groups and arrays at or below the group, by path; `metadata` is zarr.json as it is stored."""
    listed: list[Node] = []
    for node in context.nodes():
        listed.append(node)
        if len(listed) == _AT_ONCE:
            yield _nodes(listed)
            listed = []
    yield _nodes(listed)


def _nodes(nodes: Sequence[Node]) -> pa.RecordBatch:
    arrays = [node.array for node in nodes]
    documents: list[Mapping[str, Any]] = [json.loads(node.user_data) for node in nodes]
    return batch_of(
        {
            "path": pa.array([str(node.path) for node in nodes], pa.string()),
            "type": pa.array(["array" if each else "group" for each in arrays], pa.string()),
            "node_id": pa.array([str(node.id) for node in nodes], pa.string()),
            "shape": pa.array([each and each.shape for each in arrays], _LONGS),
            "chunk_grid": pa.array([each and each.num_chunks for each in arrays], _LONGS),
            "chunk_shape": pa.array(list(map(_chunk_shape, documents)), _LONGS),
            "dimension_names": pa.array([each and each.dimension_names for each in arrays], _TEXTS),
            "data_type": pa.array(list(map(_data_type, documents)), pa.string()),
            "attributes": pa.array(
                [json.dumps(each.get("attributes", {})) for each in documents], pa.string()
            ),
            "manifests": pa.array([len(each.manifests) if each else 0 for each in arrays]),
            "metadata": pa.array([node.user_data.decode() for node in nodes], pa.string()),
        }
    )


def _chunk_shape(document: Mapping[str, Any]) -> list[int] | None:
    """None for a group, and where the chunks are not all of one shape."""
    grid = document.get("chunk_grid", {})
    shape = grid.get("configuration", {}).get("chunk_shape")
    return shape if grid.get("name") == "regular" else None


def _data_type(document: Mapping[str, Any]) -> str | None:
    named = document.get("data_type")
    return named if named is None or isinstance(named, str) else json.dumps(named)


def read_manifests(context: TableContext) -> Iterator[pa.RecordBatch]:
    """The files that hold a snapshot's chunk references, and the arrays that these are of."""
    files = context.repository.manifest_files(context.snapshot)
    arrays: dict[str, list[str]] = {str(file.id): [] for file in files}
    for node in context.session.nodes():
        for ref in dict.fromkeys(ref.id for ref in node.array.manifests) if node.array else ():
            arrays.setdefault(str(ref), []).append(str(node.path))
    yield batch_of(
        {
            "manifest_id": pa.array([str(file.id) for file in files], pa.string()),
            "size_bytes": pa.array([file.size_bytes for file in files], pa.int64()),
            "num_chunk_refs": pa.array([file.num_refs for file in files], pa.int64()),
            "arrays": pa.array([arrays[str(file.id)] for file in files], _TEXTS),
        }
    )


def read_diff(context: TableContext) -> Iterator[pa.RecordBatch]:
    """Reads the changes from the version `from`, by default the one before `to`, to the version
    `to`, by default that of the table.
    """
    request, repository = context.request, context.repository
    end = context.snapshot if request.end is None else find_version(repository, request.end)
    parent = repository.lookup_snapshot(end).parent_id or end
    start = parent if request.start is None else find_version(repository, request.start)
    found = repository.diff(start, end)
    for change, paths in {
        "new_group": found.new_groups,
        "new_array": found.new_arrays,
        "deleted_group": found.deleted_groups,
        "deleted_array": found.deleted_arrays,
        "updated_group": found.updated_groups,
        "updated_array": found.updated_arrays,
    }.items():
        yield _changes(change, sorted(map(str, paths)))
    for path, index in found.updated_chunks.items():
        batch = _changes("updated_chunk", repeat_column(str(path), len(index)), index_column(index))
        yield from slice_batches(batch, request.batch_rows)
    moved = [(str(move.from_path), str(move.to_path)) for move in found.moved]
    yield _changes("moved", [old for old, _ in moved], moved_to=[new for _, new in moved])


def _changes(
    change: str,
    paths: Sequence[str] | pa.Array,
    chunk: pa.Array | None = None,
    moved_to: Iterable[str] | None = None,
) -> pa.RecordBatch:
    count = len(paths)
    return batch_of(
        {
            "change": repeat_column(change, count),
            "path": pa.array(paths, pa.string()),
            "chunk": pa.nulls(count, _LONGS) if chunk is None else chunk,
            "moved_to": pa.nulls(count, pa.string())
            if moved_to is None
            else pa.array(moved_to, pa.string()),
        }
    )


# History of a repository: history, snapshots, refs, ops_log.

HISTORY = (
    "depth BIGINT, snapshot_id STRING, parent_id STRING, written_at TIMESTAMP, message STRING,"
    " metadata STRING"
)
SNAPSHOTS = (
    "snapshot_id STRING, parent_id STRING, written_at TIMESTAMP, message STRING, metadata STRING"
)
REFS = "kind STRING, name STRING, snapshot_id STRING"
OPS_LOG = (
    "position BIGINT, updated_at TIMESTAMP, kind STRING, name STRING, snapshot_id STRING,"
    " previous_snapshot_id STRING, details STRING, backup_path STRING"
)


def read_history(context: TableContext) -> Iterator[pa.RecordBatch]:
    """The snapshot and those before it; `depth` counts from it."""
    depth = 0
    for block, count in context.repository.ancestry_blocks(Exactly(context.snapshot)):
        yield batch_of(
            {
                "depth": pa.array(np.arange(depth, depth + count)),
                "snapshot_id": block.ids[:count],
                "parent_id": pa.array(block.parent_ids[:count], pa.string()),
                "written_at": time_column(block.flushed_at_us[:count]),
                "message": block.messages[:count],
                "metadata": [json.dumps(each) for each in block.metadata[:count]],
            }
        )
        depth += count


def read_snapshots(context: TableContext) -> Iterator[pa.RecordBatch]:
    """All snapshots, reachable from a branch or tag or not."""
    known = context.repository.repo_info().snapshots
    ids = pa.array(format_ids(known.ids), pa.string())
    parents, written = known.parents, known.flushed_at_us
    metadata = decode_metadata_of(known.table.tables("metadata"))
    batch = batch_of(
        {
            "snapshot_id": ids,
            "parent_id": ids.take(pa.array(parents, mask=parents < 0)),
            "written_at": time_column(written),
            "message": text_column(known.table.string("message")).fill_null(""),
            "metadata": [json.dumps(each) for each in metadata],
        }
    )
    until = context.request.as_of_us
    if until is not None:
        batch = batch.filter(pa.array(written <= until))
    yield from slice_batches(batch, context.request.batch_rows)


def read_refs(context: TableContext) -> Iterator[pa.RecordBatch]:
    branches, tags = context.repository.branches(), context.repository.tags()
    yield batch_of(
        {
            "kind": ["branch"] * len(branches) + ["tag"] * len(tags),
            "name": [*branches, *tags],
            "snapshot_id": [str(one) for one in (*branches.values(), *tags.values())],
        }
    )


def read_ops_log(context: TableContext) -> Iterator[pa.RecordBatch]:
    """Newest first; `position` counts from it."""
    until, position = context.request.as_of_us, 0
    for page in context.repository.ops_log_pages():
        listed = list(updates.entries(page))
        kept = [
            (position + at, one)
            for at, one in enumerate(listed)
            if until is None or from_datetime(one.updated_at) <= until
        ]
        position += len(listed)
        yield _ops(kept)


def _ops(listed: "list[tuple[int, updates.Update]]") -> pa.RecordBatch:
    details = [_to_json(asdict(one.kind)) for _, one in listed]
    return batch_of(
        {
            "position": pa.array([position for position, _ in listed], pa.int64()),
            "updated_at": time_column([from_datetime(one.updated_at) for _, one in listed]),
            "kind": pa.array([type(one.kind).__name__ for _, one in listed], pa.string()),
            "name": _texts([each.get("name", each.get("branch")) for each in details]),
            "snapshot_id": _texts([each.get("new_snap_id") for each in details]),
            "previous_snapshot_id": _texts([each.get("previous_snap_id") for each in details]),
            "details": _texts([json.dumps(each) for each in details]),
            "backup_path": _texts([one.backup_path for _, one in listed]),
        }
    )


def _texts(values: list[Any]) -> pa.Array:
    return pa.array(values, pa.string())


def _to_json(value: Any) -> Any:
    """Converts values for JSON: times in ISO 8601, enumerations by name."""
    match value:
        case dict():
            return {key: _to_json(each) for key, each in value.items()}
        case datetime():
            return value.isoformat()
        case Enum():
            return value.name
        case _:
            return value


# Locations of chunks: chunk_refs and storage. Executors read manifests, the driver lists them.
#
# A task of `chunk_refs` is some manifests, of all arrays that were asked for. A task of `storage`
# is some arrays with all their manifests, because it adds up: arrays that share a manifest are
# together, so that it is read once.

CHUNK_REFS = (
    "path STRING, chunk ARRAY<BIGINT>, kind STRING, chunk_id STRING, location STRING,"
    " offset BIGINT, length BIGINT, etag STRING, last_modified TIMESTAMP, manifest_id STRING"
)
STORAGE = (
    "path STRING, native_chunks BIGINT, native_bytes BIGINT, virtual_chunks BIGINT,"
    " virtual_bytes BIGINT, inline_chunks BIGINT, inline_bytes BIGINT"
)
_REF_BYTES = 64  # about what a reference weighs once it is a row
_KINDS: dict[int, str] = {
    RefKind.NATIVE: "native",
    RefKind.VIRTUAL: "virtual",
    RefKind.INLINE: "inline",
}


@dataclass(frozen=True, slots=True)
class ManifestPart:
    """One manifest, and the arrays whose references in it are wanted."""

    manifest: str
    paths: tuple[str, ...]


def plan_chunk_refs(context: TableContext) -> list[tuple[ManifestPart, ...]]:
    paths: dict[ManifestId, list[str]] = {}
    for node in context.arrays():
        for manifest in _manifests(node):
            paths.setdefault(manifest, []).append(str(node.path))
    weights = _weights(context)
    weighed = [
        (ManifestPart(str(manifest), tuple(found)), weights.get(manifest, 0))
        for manifest, found in paths.items()
    ]
    return pack(weighed, context.request.partition_bytes)


def read_chunk_refs(
    context: TableContext, part: tuple[ManifestPart, ...]
) -> Iterator[pa.RecordBatch]:
    containers = context.session.files.settings.virtual.all_containers()
    size = context.request.batch_rows
    for one in part:
        for path in one.paths:
            for refs in _refs(context, path, ManifestId.parse(one.manifest)):
                for start in range(0, len(refs), size):
                    piece = refs.take(slice(start, start + size))
                    locations = text_column(
                        complete_locations(piece.location, containers, strict=False)
                    )
                    yield _batch(path, one.manifest, piece, locations)


def _batch(path: str, manifest: str, refs: ChunkRefs, locations: pa.Array) -> pa.RecordBatch:
    inline = refs.kind == RefKind.INLINE
    return batch_of(
        {
            "path": repeat_column(path, len(refs)),
            "chunk": index_column(refs.index),
            "kind": kind_column(refs.kind),
            "chunk_id": id_column(refs.chunk_id, refs.kind == RefKind.NATIVE),
            "location": locations,
            "offset": long_column(refs.offset, inline),
            "length": long_column(refs.length),
            "etag": text_column(refs.etag),
            "last_modified": time_column(
                refs.last_modified.astype(np.int64) * 1_000_000, refs.last_modified == 0
            ),
            "manifest_id": repeat_column(manifest, len(refs)),
        }
    )


def kind_column(kinds: npt.NDArray[np.uint8]) -> pa.Array:
    """Names of RefKinds; 0 is a chunk that is missing."""
    names = pa.array([_KINDS.get(kind, "missing") for kind in range(max(_KINDS) + 1)])
    return names.take(pa.array(kinds))


def plan_storage(context: TableContext) -> list[tuple[str, ...]]:
    nodes, weights = context.arrays(), _weights(context)
    groups: dict[object, list[Node]] = {}
    leader = _leaders(nodes)
    for node in nodes:
        key: object = node.path
        if manifests := _manifests(node):
            key = _leader(leader, manifests[0])
        groups.setdefault(key, []).append(node)
    weighed = [
        (
            tuple(str(node.path) for node in group),
            sum(weights.get(each, 0) for node in group for each in _manifests(node)),
        )
        for group in groups.values()
    ]
    packed = pack(weighed, context.request.partition_bytes)
    return [tuple(path for paths in group for path in paths) for group in packed]


def _leaders(nodes: Sequence[Node]) -> dict[ManifestId, ManifestId]:
    """Towards one manifest of all those that arrays connect, directly or by others."""
    leader: dict[ManifestId, ManifestId] = {}
    for node in nodes:
        manifests = _manifests(node)
        for manifest in manifests:
            leader.setdefault(manifest, manifest)
            leader[_leader(leader, manifest)] = _leader(leader, manifests[0])
    return leader


def _leader(leader: dict[ManifestId, ManifestId], manifest: ManifestId) -> ManifestId:
    while leader[manifest] != manifest:
        leader[manifest] = leader[leader[manifest]]
        manifest = leader[manifest]
    return manifest


def read_storage(context: TableContext, part: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """Bytes that an array refers to; what is referred to twice counts twice."""
    chunks = {kind: np.zeros(len(part), np.int64) for kind in _KINDS}
    sizes = {kind: np.zeros(len(part), np.int64) for kind in _KINDS}
    for row, path in enumerate(part):
        for refs in context.session.chunk_refs(NodePath(path)):
            for kind in _KINDS:
                own = refs.kind == kind
                chunks[kind][row] += np.count_nonzero(own)
                sizes[kind][row] += int(refs.length[own].sum())
    columns: dict[str, Sequence[object] | pa.Array] = {"path": list(part)}
    for kind, name in _KINDS.items():
        columns[f"{name}_chunks"] = pa.array(chunks[kind])
        columns[f"{name}_bytes"] = pa.array(sizes[kind])
    yield batch_of(columns)


def _manifests(node: Node) -> tuple[ManifestId, ...]:
    return () if node.array is None else tuple(dict.fromkeys(r.id for r in node.array.manifests))


def _weights(context: TableContext) -> dict[ManifestId, int]:
    files = context.repository.manifest_files(context.snapshot)
    return {file.id: file.num_refs * _REF_BYTES for file in files}


def _refs(context: TableContext, path: str, manifest: ManifestId) -> Iterator[ChunkRefs]:
    """References of the array inside its grid, from the manifest."""
    node = context.session.node(NodePath(path))
    if node.array is None:
        return
    for ref in node.array.manifests:
        if ref.id == manifest:
            refs = refs_in(context.session.files, node, ref)
            if refs is not None and len(inside := refs.within(node.array.num_chunks)):
                yield inside
            return  # one manifest may be listed for several parts of the grid


type Part = Any  # picklable; what it is only its table knows

_VERSION = frozenset({"branch", "tag", "snapshot", "asOf"})
_PLACE = frozenset({"group", "variables", "partitionBytes"})


@dataclass(frozen=True, slots=True)
class MetadataTable:
    """`takes`: the options that mean something to it, beside those that all have."""

    about: str
    ddl: str
    read: Callable[[TableContext, Part], Iterator[pa.RecordBatch]]
    takes: frozenset[str]
    plan: Callable[[TableContext], Sequence[Part]] = field(default=lambda _: [()])

    @property
    def of_snapshot(self) -> bool:
        """True if the table belongs to one version; others show the state when they are read."""
        return self.takes >= _VERSION


def _ignore_part(
    read: Callable[[TableContext], Iterator[pa.RecordBatch]],
) -> Callable[[TableContext, Part], Iterator[pa.RecordBatch]]:
    return lambda context, _: read(context)


TABLES = {
    "history": MetadataTable(
        "the snapshot and those before it",
        HISTORY,
        _ignore_part(read_history),
        _VERSION,
    ),
    "snapshots": MetadataTable(
        "all snapshots, of any branch; with `asOf` those written until then",
        SNAPSHOTS,
        _ignore_part(read_snapshots),
        frozenset({"asOf"}),
    ),
    "refs": MetadataTable("branches and tags", REFS, _ignore_part(read_refs), frozenset()),
    "nodes": MetadataTable(
        "groups and arrays at or below `group`",
        NODES,
        _ignore_part(read_nodes),
        _VERSION | {"group"},
    ),
    "manifests": MetadataTable(
        "files of chunk references", MANIFESTS, _ignore_part(read_manifests), _VERSION
    ),
    "chunk_refs": MetadataTable(
        "where every chunk is",
        CHUNK_REFS,
        read_chunk_refs,
        _VERSION | _PLACE,
        plan_chunk_refs,
    ),
    "ops_log": MetadataTable(
        "what was done to the repository; with `asOf` until then",
        OPS_LOG,
        _ignore_part(read_ops_log),
        frozenset({"asOf"}),
    ),
    "diff": MetadataTable(
        "what changed from the version `from` to the version `to`",
        DIFF,
        _ignore_part(read_diff),
        _VERSION | {"from", "to"},
    ),
    "storage": MetadataTable(
        "chunks and bytes that each array refers to, by kind",
        STORAGE,
        read_storage,
        _VERSION | _PLACE,
        plan_storage,
    ),
}
