"""A write in a session: what is there, arrays made or resized, references of chunks, coordinates.

Everything is pending until the commit.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from pyspark.sql.types import StructType

from frazil.errors import InvalidInputError, NodeNotFoundError
from frazil.flatbuf.flexbuffers import Json
from frazil.format.chunk_refs import ChunkRefs
from frazil.paths import NodePath
from frazil.repo.session import Session
from frazil.spark.description import ArrayDescription, GroupDescription
from frazil.spark.ingestion.metadata import group_document
from frazil.spark.jobs.regions import store_region
from frazil.spark.opened import Opened
from frazil.spark.writing.assembly import StoredChunks
from frazil.spark.writing.columns import Column
from frazil.spark.writing.layout import Layout
from frazil.spark.writing.options import WriteOptions
from frazil.spark.writing.target import Target, plan_target
from frazil.zarrstore.arrays import read_region


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    target: Target
    documents: Mapping[str, bytes]  # zarr.json of the arrays that are there


@dataclass(frozen=True, slots=True)
class Written:
    chunks: int
    size_bytes: int
    rows: int


def prepare(session: Session, schema: StructType, options: WriteOptions) -> Prepared:
    """Everything that can be found out without a row. Raises what is wrong with the schema."""
    path = NodePath(options.group)
    there = _describe(session, options.group)
    arrays = {} if there is None else there.arrays
    dims = {dim for array in arrays.values() for dim in array.dims}
    values: dict[str, Column] = {
        name: read_region(session, path.child(name), (slice(0, array.shape[0]),))
        for name, array in arrays.items()
        if array.is_coordinate and name in dims
    }
    target = plan_target(there, values, schema, options)
    for variable in target.variables:
        if not variable.is_new:
            _require_one_chunk_shape(session, path.child(variable.array.name), variable.array)
    documents = {name: session.node(path.child(name)).user_data for name in arrays}
    return Prepared(target, documents)


def apply_layout(
    session: Session, target: Target, layout: Layout, attrs: Mapping[str, Json]
) -> int:
    """Arrays as they will be, and their coordinates; the number of chunks of these."""
    group = NodePath(layout.group)
    make_group(session, group, attrs)
    for name in target.replaced:
        session.delete_node(group.child(name))
    for array in layout.arrays:
        session.set_node(group.child(array.name), array.document)
    return sum(_write_coordinate(session, group, layout, k) for k in range(len(layout.coordinates)))


def make_group(session: Session, group: NodePath, attrs: Mapping[str, Json]) -> None:
    """With those above it. Attributes are added to those there are."""
    for path in [*reversed([*group.ancestors]), group]:
        node = session.find_node(path)
        given = attrs if path == group else {}
        if node is None:
            session.set_node(path, group_document(given))
        elif node.array is not None:
            raise InvalidInputError(
                f"there is an array at `{path}`, not a group", kind="not-a-group"
            )
        elif given:
            kept = json.loads(node.user_data).get("attributes", {})
            session.set_node(path, group_document({**kept, **given}))


def merge_chunks(
    session: Session, paths: Sequence[NodePath], results: Iterable[StoredChunks]
) -> Written:
    """References into the session. A chunk that was made twice is an error, never lost.

    Results number the arrays that are at `paths`.
    """
    chunks, size, rows = 0, 0, 0
    by_array: dict[int, list[StoredChunks]] = {}
    for result in results:
        by_array.setdefault(result.array, []).append(result)
        rows += result.rows if result.array == 0 else 0
    for number, parts in by_array.items():
        path = paths[number]
        refs = ChunkRefs.concat([part.refs for part in parts])
        emptied = np.concatenate([part.emptied for part in parts])
        all_made = np.concatenate([emptied, *(part.refs.index for part in parts)])
        if len(np.unique(all_made, axis=0)) != len(all_made):
            raise InvalidInputError(
                f"two rows are for one chunk of {path.name!r}", kind="duplicate-rows"
            )
        if len(refs):
            session.set_chunk_refs(path, refs)
        for index in emptied.tolist():
            if session.chunk_payload(path, tuple(index)) is not None:
                session.delete_chunk(path, tuple(index))
        chunks += len(refs)
        size += int(refs.length.sum(dtype=np.uint64))
    return Written(chunks, size, rows)


def _require_one_chunk_shape(session: Session, path: NodePath, array: ArrayDescription) -> None:
    stored = session.node(path).array
    grid = tuple(-(-n // chunk) for n, chunk in zip(array.shape, array.chunks, strict=True))
    if stored is not None and stored.num_chunks != grid:
        raise InvalidInputError(f"the chunks of array `{path}` are not all of one shape")


def _describe(session: Session, group: str) -> GroupDescription | None:
    try:
        return Opened(session).describe(group)
    except NodeNotFoundError:
        return None


def _write_coordinate(session: Session, group: NodePath, layout: Layout, axis: int) -> int:
    """Number of chunks stored; only those that change."""
    coordinate, document = layout.coordinates[axis], layout.coordinate_documents[axis]
    if document is None or coordinate.values is None:
        return 0
    path = group.child(coordinate.name)
    node = session.find_node(path)
    if node is not None and node.user_data == document:
        return 0
    session.set_node(path, document)
    base = layout.base_sizes[axis]
    chunk = Opened(session).describe(layout.group).arrays[coordinate.name].chunks[0]
    start = base // chunk * chunk
    if start >= coordinate.size:
        return 0
    where = (slice(start, coordinate.size),)
    refs = store_region(document, session.chunk_writer(), where, coordinate.values[start:])
    session.set_chunk_refs(path, refs)
    return len(refs)
