"""A repository with a bit of everything in it, and its files as raw tables.

The rules of the specification are about bytes, so the tests of this directory look at tables as
they are on disk, below the classes of frazil.format, which could sort or fill in on the way.
"""

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from frazil.engine.files.object_keys import MANIFESTS, SNAPSHOTS, TRANSACTIONS
from frazil.engine.repository import Repository
from frazil.flatbuf.decode import decode
from frazil.flatbuf.schema import TableSchema
from frazil.flatbuf.table import Table
from frazil.format.chunk_refs import ChunkRefs
from frazil.format.conditions import ManifestSplitCondition, ManifestSplitDimCondition
from frazil.format.config import ManifestConfig, ManifestSplittingConfig, RepositoryConfig
from frazil.format.envelope import FileType, decode_envelope, decode_header
from frazil.format.schemas import MANIFEST, REPO, SNAPSHOT, TRANSACTION_LOG
from frazil.objectstore.memory import MemoryStore
from frazil.paths import NodePath

FILES: dict[str, tuple[FileType, TableSchema]] = {
    "repo": (FileType.REPO_INFO, REPO),
    SNAPSHOTS: (FileType.SNAPSHOT, SNAPSHOT),
    MANIFESTS: (FileType.MANIFEST, MANIFEST),
    TRANSACTIONS: (FileType.TRANSACTION_LOG, TRANSACTION_LOG),
}
GROUP = json.dumps({"zarr_format": 3, "node_type": "group", "attributes": {}}).encode()


@dataclass(frozen=True, slots=True)
class Written:
    store: MemoryStore
    repository: Repository

    def keys(self, prefix: str = "") -> list[str]:
        return sorted(info.key for info in self.store.list(prefix))

    def table(self, key: str) -> Table:
        """The file's root table, one row."""
        file_type, schema = FILES["repo" if key.startswith("overwritten/") else _kind(key)]
        return decode(decode_envelope(self.store.get(key).data, file_type).data, schema)

    def tables(self, kind: str) -> Iterator[tuple[str, Table]]:
        for key in self.keys(kind):
            yield key, self.table(key)

    def file_type(self, key: str) -> FileType:
        return decode_header(self.store.get(key).data).file_type


def _kind(key: str) -> str:
    head, slash, _ = key.partition("/")
    return head + slash


def array_metadata(shape: Sequence[int], chunks: Sequence[int], **more: object) -> bytes:
    return json.dumps(
        {
            "zarr_format": 3,
            "node_type": "array",
            "shape": list(shape),
            "data_type": "int16",
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunks)}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": 0,
            "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
            "attributes": {},
            **more,
        }
    ).encode()


def split_every(chunks: int) -> RepositoryConfig:
    """Configuration under which a manifest holds `chunks` chunks along each dimension."""
    sizes: dict[ManifestSplitCondition, dict[ManifestSplitDimCondition, int]] = {
        ManifestSplitCondition.AnyArray(): {ManifestSplitDimCondition.Any(): chunks}
    }
    splitting = ManifestSplittingConfig.from_dict(sizes)
    return RepositoryConfig(
        inline_chunk_threshold_bytes=16, manifest=ManifestConfig(splitting=splitting)
    )


def write_everything() -> Written:
    """Names and chunks are given in an order that is never the one the format wants."""
    store = MemoryStore()
    repository = Repository.create(store, split_every(2))
    _write_nodes(repository)
    _write_changes(repository)
    tip = repository.lookup_branch("main")
    for name in ("zeta", "Alpha", "mu", "é"):
        repository.create_branch(name, tip)
        repository.create_tag(f"tag-{name}", tip)
        repository.create_tag(f"gone-{name}", tip)
        repository.delete_tag(f"gone-{name}")
    return Written(store, repository)


def _write_nodes(repository: Repository) -> None:
    session = repository.writable_session("main")
    for path in ("/", "/z", "/a", "/a/b", "/a-b", "/doomed", "/doomed/y", "/doomed/x"):
        session.set_node(NodePath(path), GROUP)
    for path in ("/z/late", "/a/b/early", "/doomed/array", "/doomed/y/array", "/doomed/x/array"):
        session.set_node(
            NodePath(path), array_metadata((8, 6), (2, 2), dimension_names=["y", None])
        )
        for row, column in ((3, 2), (0, 0), (1, 1), (3, 0), (2, 2), (0, 2)):
            size = 32 if row else 8  # those of the first row are stored inline
            session.set_chunk(NodePath(path), (row, column), bytes(size))
    session.set_node(NodePath("/scalar"), array_metadata((), ()))
    session.set_chunk(NodePath("/scalar"), (), b"\x01\x00")
    session.set_node(NodePath("/a"), GROUP + b" ")  # created and edited in one commit
    session.commit("nodes", {"zz": [1, None, True], "aa": {"b": 1.5}, "mm": "text"})


def _write_changes(repository: Repository) -> None:
    session = repository.writable_session("main")
    session.delete_node(NodePath("/doomed"))
    for path in ("/z", "/a-b", "/a/b"):
        session.set_node(NodePath(path), GROUP + b" ")
    session.set_node(NodePath("/new"), GROUP)
    early = NodePath("/a/b/early")
    session.set_node(early, array_metadata((8, 6), (2, 2), attributes={"edited": True}))
    session.set_node(NodePath("/scalar"), array_metadata((), (), attributes={"edited": True}))
    index = np.array([[2, 1], [2, 0]], dtype=np.uint32)
    session.set_chunk_refs(early, ChunkRefs.virtual(index, ["s3://b/y", "s3://b/x"], 0, 10))
    late = NodePath("/z/late")
    session.set_node(late, array_metadata((10, 6), (2, 2), dimension_names=["y", None]))
    session.set_chunk(late, (4, 1), bytes(40))
    session.set_chunk(late, (1, 0), bytes(40))
    session.delete_chunk(late, (3, 2))
    session.commit("changes")


def raw_rows(values: npt.NDArray[np.uint8]) -> list[bytes]:
    return [row.tobytes() for row in values]


def is_ascending(rows: Sequence[Any]) -> bool:
    """Strictly: no two rows are equal."""
    return all(left < right for left, right in itertools.pairwise(rows))
