"""What is in a snapshot, and what changed between two: nodes, manifests, diff."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from frazil.format.nodes import Node
from frazil.spark.tables.columns import batch_of, index_column, repeated, sliced
from frazil.spark.tables.context import TableContext, find_version

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
    """From the version `from` to the version `to`, by default the one the table is of."""
    request, repository = context.request, context.repository
    start = find_version(repository, request.start or "")
    end = context.snapshot if request.end is None else find_version(repository, request.end)
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
        batch = _changes("updated_chunk", repeated(str(path), len(index)), index_column(index))
        yield from sliced(batch, request.batch_rows)
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
            "change": repeated(change, count),
            "path": pa.array(paths, pa.string()),
            "chunk": pa.nulls(count, _LONGS) if chunk is None else chunk,
            "moved_to": pa.nulls(count, pa.string())
            if moved_to is None
            else pa.array(moved_to, pa.string()),
        }
    )
