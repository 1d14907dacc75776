"""Where chunks are: chunk_refs and storage. Executors read manifests, the driver only lists them.

A task of `chunk_refs` is some manifests, of all arrays that were asked for. A task of `storage` is
some arrays with all their manifests, because it adds up: arrays that share a manifest are
together, so that it is read once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.format.chunk_refs import ChunkRefs
from frazil.format.nodes import Node
from frazil.format.payloads import RefKind
from frazil.ids import ManifestId
from frazil.paths import NodePath
from frazil.repo.lookup import refs_in
from frazil.spark.tables.columns import (
    batch_of,
    id_column,
    index_column,
    long_column,
    repeated,
    text_column,
    time_column,
)
from frazil.spark.tables.context import TableContext, pack
from frazil.zarrstore.virtual_listing import completed

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
                    locations = text_column(completed(piece.location, containers, strict=False))
                    yield _batch(path, one.manifest, piece, locations)


def _batch(path: str, manifest: str, refs: ChunkRefs, locations: pa.Array) -> pa.RecordBatch:
    inline = refs.kind == RefKind.INLINE
    return batch_of(
        {
            "path": repeated(path, len(refs)),
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
            "manifest_id": repeated(manifest, len(refs)),
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
    """Of the array, those inside its grid that are in the manifest."""
    node = context.session.node(NodePath(path))
    if node.array is None:
        return
    for ref in node.array.manifests:
        if ref.id == manifest:
            refs = refs_in(context.session.files, node, ref)
            if refs is not None and len(inside := refs.within(node.array.num_chunks)):
                yield inside
            return  # one manifest may be listed for several parts of the grid
