"""The group that an ingest writes to: as it is, and as it will be."""

import json
from collections.abc import Sequence
from dataclasses import replace

from frazil.engine.session.session import Session
from frazil.errors import AlreadyExistsError, InvalidInputError, NodeNotFoundError
from frazil.paths import NodePath
from frazil.spark.ingestion.array_documents import array_document
from frazil.spark.ingestion.ingest_layout import Layout, TargetArray
from frazil.spark.runtime.jobs import store_region
from frazil.spark.sources.source_dataset import describe_dataset
from frazil.spark.sources.source_errors import source_errors
from frazil.spark.sources.source_types import SourceDescription, Storage, StoredAs
from frazil.spark.table.documents import group_document, resized_document
from frazil.zarrstore.store import SessionStore


def parse_group(text: str) -> NodePath:
    """`weather`, `/weather` and `/weather/` are one group."""
    return NodePath.from_key_prefix(text)


def describe_group(session: Session, group: NodePath, concat_dim: str) -> SourceDescription:
    """The group to append to. Raises NodeNotFoundError, InvalidInputError if it is an array."""
    import xarray as xr  # noqa: PLC0415 -- of the extra `ingest`, and slow to load

    node = session.find_node(group)
    if node is None:
        raise NodeNotFoundError(f"there is no group at `{group}` to append to")
    if node.array is not None:
        raise InvalidInputError(f"the node at `{group}` is not a group", kind="not-a-group")
    label = f"group `{group}`"
    with source_errors(label):
        dataset = xr.open_dataset(
            SessionStore(session, read_only=True),  # type: ignore[arg-type]  # stubs know only paths
            engine="zarr",
            group=group.text.strip("/") or None,
            decode_cf=False,
            chunks=None,
            cache=False,
            consolidated=False,
            zarr_format=3,
        )
        found = describe_dataset(dataset, label, concat_dims=(concat_dim,), only=None)
    variables = {
        name: replace(variable, storage=_storage(session.node(group.child(name)).user_data))
        for name, variable in found.variables.items()
    }
    return replace(found, variables=variables)


def _storage(document: bytes) -> Storage:
    """Returns the storage of an array, from its zarr.json."""
    found = json.loads(document)
    if found["chunk_grid"]["name"] != "regular" or not isinstance(found["data_type"], str):
        return "another kind of array"
    return StoredAs(
        chunks=tuple(found["chunk_grid"]["configuration"]["chunk_shape"]),
        data_type=found["data_type"],
        codecs=json.dumps(found["codecs"]),
        fill=json.dumps(found["fill_value"]),
    )


def require_absent(session: Session, group: NodePath, names: Sequence[str]) -> None:
    """Creating never overwrites."""
    node = session.find_node(group)
    if node is not None and node.array is not None:
        raise AlreadyExistsError(f"there is an array at `{group}`: choose another group")
    for name in names:
        if session.find_node(group.child(name)) is not None:
            raise AlreadyExistsError(
                f"there is already {name!r} in group `{group}`: append to it (mode='append'),"
                " or choose another group"
            )


def create_arrays(session: Session, group: NodePath, layout: Layout) -> tuple[bytes, ...]:
    """Groups and empty arrays, pending in the session; zarr.json of each array."""
    for above in reversed([*group.ancestors]):
        if session.find_node(above) is None:
            session.set_node(above, group_document({}))
    node = session.find_node(group)
    kept = json.loads(node.user_data).get("attributes", {}) if node is not None else {}
    session.set_node(group, group_document({**kept, **layout.attrs}))
    documents = tuple(array_document(array) for array in layout.arrays)
    for array, document in zip(layout.arrays, documents, strict=True):
        session.set_node(group.child(array.name), document)
    return documents


def resize_arrays(session: Session, group: NodePath, layout: Layout) -> tuple[bytes, ...]:
    """Arrays as long as they will be, pending in the session; zarr.json of each."""
    documents = []
    for array in layout.arrays:
        path = group.child(array.name)
        node = session.node(path)
        document = node.user_data
        if node.array is None or node.array.shape != array.shape:
            document = resized_document(document, array.shape)
            session.set_node(path, document)
        documents.append(document)
    return tuple(documents)


def write_coordinates(
    session: Session, group: NodePath, layout: Layout, documents: Sequence[bytes]
) -> tuple[int, int]:
    """Stores the arrays whose values the driver knows. Number and bytes of their chunks.

    When appending, only the chunks that change.
    """
    chunks, size_bytes = 0, 0
    for array, document in zip(layout.arrays, documents, strict=True):
        if array.values is None or array.values.size == 0:
            continue
        start = _first_changed(array, layout.base_length)
        where = (slice(start, array.shape[0]),)
        refs = store_region(document, session.chunk_writer(), where, array.values[start:])
        session.set_chunk_refs(group.child(array.name), refs)
        chunks += len(refs)
        size_bytes += int(refs.length.sum())
    return chunks, size_bytes


def _first_changed(array: TargetArray, base_length: int) -> int:
    if array.axis is None:
        return 0
    return base_length // array.chunks[0] * array.chunks[0]
