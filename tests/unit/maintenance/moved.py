"""Repositories to copy and to migrate: two branches, tags, every kind of chunk."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from frazil.api import Repository, Storage
from frazil.objectstore.local import LocalStore
from frazil.objectstore.protocol import ObjectStore

type Seen = dict[str, Any]


def opened(store: ObjectStore | Path) -> Repository:
    return Repository.open(Storage(LocalStore(store) if isinstance(store, Path) else store))


def commit(repo: Repository, branch: str, i: int) -> str:
    """Native chunks, inline ones, a group, and a change of what was there."""
    session = repo.writable_session(branch)
    options: dict[str, Any] = {"dtype": "f8", "compressors": None}
    native = zarr.create_array(
        session.store, name=f"g{i}/native", shape=(40, 30), chunks=(20, 30), **options
    )
    native[...] = np.arange(1200).reshape(40, 30) + i
    inline = zarr.create_array(session.store, name=f"h/i{i}", shape=(3,), chunks=(1,), **options)
    inline[:2] = i
    if i > 0:
        zarr.open_array(session.store, path="g0/native")[0] = -i
    return session.commit(f"commit {i} ✓", metadata={"i": [i, None, "é"]})


def made(store: ObjectStore, *, spec_version: int = 2) -> Repository:
    repo = Repository.create(Storage(store), spec_version=spec_version)
    for i in range(3):
        commit(repo, "main", i)
    for tag in ("v1", "gone"):
        repo.create_tag(tag, repo.lookup_branch("main"))
    repo.delete_tag("gone")
    repo.create_branch("dev", repo.lookup_branch("main"))
    commit(repo, "dev", 3)
    return repo


def seen(repo: Any, *, ids: bool = True) -> Seen:
    """All that a user can see of branches and tags: history, and every array of every version."""
    found: Seen = {}
    for kind in ("branch", "tag"):
        names = repo.list_branches() if kind == "branch" else repo.list_tags()
        for name in sorted(names):
            history = list(repo.ancestry(**{kind: name}))
            found[f"{kind} {name}"] = [
                (
                    info.id if ids else None,
                    info.message,
                    info.written_at,
                    json.dumps(info.metadata, sort_keys=True),
                    contents(repo, info.id),
                )
                for info in history
            ]
    return found


def contents(repo: Any, snapshot_id: str) -> dict[str, Any]:
    store = repo.readonly_session(snapshot_id=snapshot_id).store
    try:
        root = zarr.open_group(store, mode="r")
    except FileNotFoundError:
        return {}
    return {
        path: np.asarray(node[...]).tolist() if isinstance(node, zarr.Array) else dict(node.attrs)
        for path, node in root.members(max_depth=None)
    }
