"""Two engines behind one face: replaying a history, and seeing everything a repository shows.

The face is Icechunk's own API, which frazil offers under the same names. FRAZIL_COMPAT_ENGINE
=icechunk puts the reference on both sides, which tests this harness itself.
"""

import importlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, assert_never, cast

import numpy as np
import numpy.typing as npt
import zarr
from zarr.abc.store import Store
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync
from zarr.storage import MemoryStore

from tests.compat.steps import (
    Abandon,
    ArraySpec,
    Clear,
    Commit,
    CreateArray,
    CreateBranch,
    CreateGroup,
    CreateTag,
    Delete,
    DeleteBranch,
    DeleteTag,
    Edit,
    History,
    Json,
    RefStep,
    ResetBranch,
    Resize,
    SetAttributes,
    Step,
    Write,
)

INITIAL_SNAPSHOT = "1CECHNKREP0F1RSTCMT0"
# Fields of each kind of ops-log entry
UPDATE_FIELDS = {
    "RepoInitialized": (),
    "RepoMigrated": ("from_version", "to_version"),
    "ConfigChanged": (),
    "MetadataChanged": (),
    "TagCreated": ("name",),
    "TagDeleted": ("name", "previous_snap_id"),
    "BranchCreated": ("name",),
    "BranchDeleted": ("name", "previous_snap_id"),
    "BranchReset": ("name", "previous_snap_id"),
    "NewCommit": ("branch", "new_snap_id"),
    "CommitAmended": ("branch", "previous_snap_id", "new_snap_id"),
    "GCRan": (),
}
DIFF_SETS = (
    *("new_groups", "new_arrays", "deleted_groups", "deleted_arrays"),
    *("updated_groups", "updated_arrays"),
)

type Contents = dict[str, bytes]  # store key -> bytes
type Plain = dict[str, object]


@dataclass(frozen=True, slots=True)
class Engine:
    """An implementation of Icechunk's Python API."""

    name: str
    module: ModuleType

    def storage(self, root: Path) -> Any:
        return self.module.local_filesystem_storage(str(root))

    def create(self, root: Path, *, config: Any = None) -> Any:
        return self.module.Repository.create(self.storage(root), config=config)

    def open(self, root: Path) -> Any:
        return self.module.Repository.open(self.storage(root))

    def config(self, **fields: object) -> Any:
        return self.module.RepositoryConfig(**fields)


REFERENCE = Engine("icechunk", importlib.import_module("icechunk"))
OURS = Engine("frazil", importlib.import_module(os.environ.get("FRAZIL_COMPAT_ENGINE", "frazil")))


# --- editing ----------------------------------------------------------------------------------


def values_for(spec_dtype: np.dtype[Any], shape: tuple[int, ...], seed: int) -> npt.NDArray[Any]:
    """Random values of a dtype, extremes and not-a-numbers included."""
    rng = np.random.default_rng(seed)
    match spec_dtype.kind:
        case "b":
            return rng.integers(0, 2, shape).astype(bool)
        case "i" | "u":
            limits = np.iinfo(spec_dtype)
            native = spec_dtype.newbyteorder("=")
            return rng.integers(limits.min, limits.max, shape, native, endpoint=True).astype(
                spec_dtype
            )
        case "f" | "c":
            real = rng.choice([0.0, -0.0, 1.5, -2.25, np.nan, np.inf, -np.inf, 1e-3], shape)
            imaginary = rng.standard_normal(shape) * 1j if spec_dtype.kind == "c" else 0
            return cast("npt.NDArray[Any]", np.asarray(real + imaginary).astype(spec_dtype))
        case "M" | "m":
            return rng.integers(-(10**12), 10**12, shape).astype(spec_dtype)
        case _:
            words = ["", "a", "é", "日本", "long enough to be cut", "z" * 40]
            if spec_dtype.kind == "S":
                words = ["", "a", "bcd", "abcdefgh"]
            return rng.choice(np.array(words, dtype=object), shape).astype(spec_dtype)


def create_array(store: Store, path: str, spec: ArraySpec, *, overwrite: bool) -> None:
    zarr.create_array(
        store,
        name=path,
        shape=spec.shape,
        chunks=spec.chunks,
        shards=spec.shards,
        dtype=spec.dtype,
        compressors="auto" if spec.compressed else None,
        dimension_names=spec.dimension_names,
        overwrite=overwrite,
    )


def apply_edit(store: Store, edit: Edit) -> None:
    match edit:
        case CreateGroup(path, attributes):
            zarr.create_group(store, path=path, attributes=cast("dict[str, Any]", attributes))
        case CreateArray(path, spec, overwrite):
            create_array(store, path, spec, overwrite=overwrite)
        case Write(path, region, seed):
            array = zarr.open_array(store, path=path, mode="r+")
            where = tuple(slice(start, stop) for start, stop in region)
            shape = tuple(stop - start for start, stop in region)
            array[where or ...] = (
                array.fill_value if seed is None else values_for(array.dtype, shape, seed)
            )
        case Resize(path, shape):
            zarr.open_array(store, path=path, mode="r+").resize(shape)
        case SetAttributes(path, attributes):
            node = zarr.open(store, path=path, mode="r+")
            node.attrs.put(cast("dict[str, Any]", attributes))
        case Delete(path):
            del zarr.open_group(store, mode="r+")[path]
        case Clear():
            sync(store.clear())
        case _:
            assert_never(edit)


# --- replaying --------------------------------------------------------------------------------


@dataclass(slots=True)
class Model:
    """The history as plain dictionaries: what every engine must show."""

    snapshots: list[Contents] = field(default_factory=lambda: [{}])
    messages: list[str] = field(default_factory=lambda: ["Repository initialized"])
    metadata: list[Json] = field(default_factory=lambda: [{"__icechunk": {"is_root": True}}])
    parents: list[int | None] = field(default_factory=lambda: [None])
    branches: dict[str, int] = field(default_factory=lambda: {"main": 0})
    tags: dict[str, int] = field(default_factory=dict)

    def play(self, step: Step) -> None:
        match step:
            case Commit():
                store = MemoryStore()
                base = self.branches[step.branch]
                for key, value in self.snapshots[base].items():
                    sync(store.set(key, default_buffer_prototype().buffer.from_bytes(value)))
                for edit in step.edits:
                    apply_edit(store, edit)
                self.snapshots.append(contents(store))
                self.messages.append(step.message)
                self.metadata.append(step.metadata or {})
                self.parents.append(base)
                self.branches[step.branch] = len(self.snapshots) - 1
            case Abandon():
                pass
            case CreateBranch(name, snapshot) | ResetBranch(name, snapshot):
                self.branches[name] = snapshot
            case DeleteBranch(name):
                del self.branches[name]
            case CreateTag(name, snapshot):
                self.tags[name] = snapshot
            case DeleteTag(name):
                del self.tags[name]
            case _:
                assert_never(step)

    def ancestry(self, position: int) -> list[int]:
        found = [position]
        while (parent := self.parents[found[-1]]) is not None:
            found.append(parent)
        return found


@dataclass(slots=True)
class Player:
    """Replays steps in the repository at `root`; `ids` are those of its snapshots, in order."""

    root: Path
    ids: list[str] = field(default_factory=lambda: [INITIAL_SNAPSHOT])

    def play(self, engine: Engine, step: Step, *, repo: Any = None) -> Plain | None:
        """The session's status just before it was committed or discarded, for steps that edit."""
        repo = repo or engine.open(self.root)
        match step:
            case Commit():
                session = repo.writable_session(step.branch)
                for edit in step.edits:
                    apply_edit(session.store, edit)
                status = plain_diff(session.status())
                self.ids.append(
                    session.commit(
                        step.message, metadata=step.metadata, allow_empty=step.allow_empty
                    )
                )
                return status
            case Abandon():
                session = repo.writable_session(step.branch)
                before = contents(session.store)
                for edit in step.edits:
                    apply_edit(session.store, edit)
                status = plain_diff(session.status())
                session.discard_changes()
                assert not session.has_uncommitted_changes
                assert contents(session.store) == before
                return status
            case _:
                self._play_ref_step(repo, step)
                return None

    def _play_ref_step(self, repo: Any, step: RefStep) -> None:
        match step:
            case CreateBranch(name, snapshot):
                repo.create_branch(name, self.ids[snapshot])
            case ResetBranch(name, snapshot):
                repo.reset_branch(name, self.ids[snapshot])
            case DeleteBranch(name):
                repo.delete_branch(name)
            case CreateTag(name, snapshot):
                repo.create_tag(name, self.ids[snapshot])
            case DeleteTag(name):
                repo.delete_tag(name)
            case _:
                assert_never(step)


def create_for(engine: Engine, root: Path, history: History) -> None:
    fields: dict[str, object] = {}
    if history.inline_threshold_bytes is not None:
        fields["inline_chunk_threshold_bytes"] = history.inline_threshold_bytes
    if history.updates_per_file is not None:
        fields["num_updates_per_repo_info_file"] = history.updates_per_file
    engine.create(root, config=engine.config(**fields) if fields else None)


# --- observing --------------------------------------------------------------------------------


def keys_of(store: Store) -> list[str]:
    async def collect() -> list[str]:
        return sorted([key async for key in store.list()])

    return sync(collect())


def contents(store: Store) -> Contents:
    """Every key of a store with its bytes."""

    async def collect() -> Contents:
        found = {}
        for key in sorted([key async for key in store.list()]):
            value = await store.get(key, default_buffer_prototype())
            assert value is not None, f"{key!r} is listed, but not there"
            found[key] = value.to_bytes()
        return found

    return sync(collect())


def listing(store: Store) -> Plain:
    """The directory of every node, and the size of every key."""

    async def collect() -> Plain:
        keys = [key async for key in store.list()]
        found: Plain = {key: await store.getsize(key) for key in keys}
        for key in keys:
            if key.endswith("zarr.json"):
                path = key.removesuffix("zarr.json").rstrip("/")
                names = {name.rstrip("/") async for name in store.list_dir(path)}
                # The reference shows the directory `c` of an array even when it is empty.
                empty = not any(other.startswith(f"{path}/c".lstrip("/")) for other in keys)
                found[f"{path}/"] = sorted(names - {"c"} if empty else names)
        return found

    return sync(collect())


def array_values(store: Store) -> dict[str, object]:
    """The values of every array, in a form in which NaN equals itself."""
    found: dict[str, object] = {}
    for key in keys_of(store):
        if key.endswith("zarr.json") and key != "zarr.json":
            path = key.removesuffix("/zarr.json")
            node = zarr.open(store, path=path, mode="r")
            if isinstance(node, zarr.Array):
                values = np.asarray(node[...])
                exact = values.tobytes() if values.dtype.kind in "biufcMm" else values.tolist()
                found[path] = (str(values.dtype), values.shape, exact)
    return found


def plain_diff(diff: Any) -> Plain:
    plain: Plain = {name: sorted(getattr(diff, name)) for name in DIFF_SETS}
    plain["updated_chunks"] = {
        path: sorted(list(index) for index in chunks)
        for path, chunks in diff.updated_chunks.items()
    }
    plain["moved_nodes"] = [tuple(move) for move in diff.moved_nodes]
    plain["is_empty"] = diff.is_empty()
    return plain


def plain_snapshot(info: Any) -> Plain:
    return {
        "id": info.id,
        "parent_id": info.parent_id,
        "written_at": info.written_at,
        "message": info.message,
        "metadata": info.metadata,
    }


def plain_update(update: Any) -> Plain:
    kind = type(update.kind).__name__
    fields = {name: getattr(update.kind, name) for name in UPDATE_FIELDS[kind]}
    return {
        "kind": kind,
        "fields": fields,
        "updated_at": update.updated_at,
        "backup_path": update.backup_path,
    }


def history_of(repo: Any) -> Plain:
    """Refs, the ancestry of each, and the ops log."""
    branches = {name: repo.lookup_branch(name) for name in sorted(repo.list_branches())}
    tags = {name: repo.lookup_tag(name) for name in sorted(repo.list_tags())}
    return {
        "branches": branches,
        "tags": tags,
        "branch ancestry": {
            name: [plain_snapshot(info) for info in repo.ancestry(branch=name)] for name in branches
        },
        "tag ancestry": {
            name: [plain_snapshot(info) for info in repo.ancestry(tag=name)] for name in tags
        },
        "ops log": [plain_update(update) for update in repo.ops_log()],
    }


def diff_between(repo: Any, older: str, newer: str) -> Plain:
    return plain_diff(repo.diff(from_snapshot_id=older, to_snapshot_id=newer))


def assert_same(ours: object, reference: object, what: str) -> None:
    """Equal, or an error that shows the first difference rather than everything."""
    if ours == reference:
        return
    where, left, right = _first_difference(ours, reference, what)
    raise AssertionError(f"{where}: frazil {left!r}, icechunk {right!r}")


def _first_difference(left: object, right: object, where: str) -> tuple[str, object, object]:
    if isinstance(left, dict) and isinstance(right, dict):
        for key in [*left, *(key for key in right if key not in left)]:
            if key not in left or key not in right:
                return f"{where} / {key!r}", left.get(key, "absent"), right.get(key, "absent")
            if left[key] != right[key]:
                return _first_difference(left[key], right[key], f"{where} / {key!r}")
    if isinstance(left, Sequence) and isinstance(right, Sequence) and len(left) == len(right):
        for i, (one, other) in enumerate(zip(left, right, strict=True)):
            if one != other and not isinstance(left, str | bytes):
                return _first_difference(one, other, f"{where}[{i}]")
    return where, left, right
