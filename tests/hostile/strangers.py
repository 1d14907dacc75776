"""Repositories as a stranger would make them: whatever the library refuses to write is written."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import frazil
from frazil.engine import repository as engine
from frazil.engine.files.object_keys import REPO_INFO, manifest_key
from frazil.format.chunk_refs import ChunkRefs, Payload
from frazil.format.config_codec import encode_config
from frazil.format.manifest import Manifest, encode_manifest
from frazil.format.repo_info import decode_repo_info, encode_repo_info
from frazil.objectstore.local import LocalStore
from frazil.paths import NodePath

ARRAY = json.dumps(
    {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [4],
        "data_type": "uint8",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0,
        "codecs": [{"name": "bytes"}],
    }
).encode()
PATH = NodePath("/v")


def stranger(root: Path, *payloads: Payload, config: frazil.RepositoryConfig | None = None) -> Path:
    """A repository with one array, whose first chunks are these, be they possible or not."""
    store = LocalStore(root, fsync=False)
    made = engine.Repository.create(store, config)
    session = made.writable_session("main")
    session.set_node(PATH, ARRAY)
    session.set_chunk(PATH, (0,), b"x" * 600)  # so that there is a manifest
    session.commit("an array")
    snapshot = made.files.fetch_snapshot(made.lookup_branch("main"))
    (file,) = snapshot.manifest_files
    (node,) = [node for node in snapshot.nodes if node.path == PATH]
    index = np.arange(len(payloads), dtype=np.uint32).reshape(-1, 1).tolist()
    refs = ChunkRefs.from_payloads(index, list(payloads))
    store.put(manifest_key(file.id), encode_manifest(Manifest(file.id, {node.id: refs})))
    return root


def with_info(root: Path, **changes: Any) -> Path:
    """The repository at `root`, with a repo info that says something else."""
    store = LocalStore(root, fsync=False)
    info = decode_repo_info(store.get(REPO_INFO).data)
    store.put(REPO_INFO, encode_repo_info(replace(info, **changes)))
    return root


def config_of(containers: Mapping[str, frazil.VirtualChunkContainer]) -> frazil.RepositoryConfig:
    config = frazil.RepositoryConfig()
    config.virtual_chunk_containers = dict(containers)
    return config


def stored_config(root: Path, config: frazil.RepositoryConfig) -> Path:
    return with_info(root, config=encode_config(config))


def first_chunk(root: Path, access: Any = None, **options: Any) -> bytes:
    """What a reader gets who opens it."""
    storage = frazil.local_filesystem_storage(str(root))
    opened = frazil.Repository.open(storage, authorize_virtual_chunk_access=access, **options)
    found = opened.readonly_session("main").engine.fetch_chunk(PATH, (0,))
    return b"" if found is None else bytes(found)
