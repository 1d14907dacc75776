"""A group as a Zarr store of format 3: chunks are copied as they are, metadata comes last."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from pathlib import Path

import numpy as np
import pyarrow as pa

from frazil.errors import AlreadyExistsError
from frazil.format.snapshot import Node
from frazil.objectstore.local import LocalStore
from frazil.objectstore.local_names import LOCK_NAME
from frazil.objectstore.protocol import ObjectStore
from frazil.paths import NodePath
from frazil.repo.session import Session
from frazil.spark.pipelines.boxes import MAX_TASK_BYTES
from frazil.spark.pipelines.relayout import dims_of
from frazil.spark.progress import Counter

CHUNKS_PER_TASK = 256  # each is a request to the store
_VALUE_BYTES = 8  # few types have longer values
METADATA = "zarr.json"
COPIED = pa.schema([("objects", pa.int64()), ("bytes", pa.int64())])


@dataclass(frozen=True, slots=True)
class ZarrArray:
    """One array: where it is, and the beginning of its keys in the target."""

    path: NodePath
    prefix: str
    shape: tuple[int, ...]
    grid: tuple[int, ...]

    @property
    def chunks(self) -> int:
        """Of the whole grid, stored or not."""
        return prod(self.grid)

    @property
    def at_once(self) -> int:
        """Chunks to be held in memory, if they do not compress at all."""
        chunk_bytes = _VALUE_BYTES * prod(self.shape) // max(1, self.chunks)
        return max(1, MAX_TASK_BYTES // max(1, chunk_bytes))

    @property
    def tasks(self) -> int:
        return -(-self.chunks // CHUNKS_PER_TASK)

    def key(self, index: Sequence[int]) -> str:
        """Of a chunk, in the one encoding that Icechunk knows."""
        return self.prefix + "/".join(["c", *map(str, index)])


@dataclass(frozen=True, slots=True)
class ZarrPlan:
    arrays: tuple[ZarrArray, ...]
    documents: tuple[tuple[str, bytes], ...]  # by key, in the order of writing: the root's is last

    @property
    def tasks(self) -> int:
        return sum(array.tasks for array in self.arrays)


@dataclass(frozen=True, slots=True)
class CopyChunks:
    """What executors do; picklable."""

    base: Session  # read-only
    plan: ZarrPlan
    target: ObjectStore
    counter: Counter

    def __call__(self, tasks: range) -> Iterator[pa.RecordBatch]:
        ends = list(accumulate(array.tasks for array in self.plan.arrays))
        objects, size_bytes = 0, 0
        for task in tasks:
            position = int(np.searchsorted(ends, task, side="right"))
            array = self.plan.arrays[position]
            for length in self._copy(array, task - (ends[position] - array.tasks)):
                objects, size_bytes = objects + 1, size_bytes + length
        self.target.sync()
        yield pa.RecordBatch.from_pylist([{"objects": objects, "bytes": size_bytes}], COPIED)

    def _copy(self, array: ZarrArray, task: int) -> Iterator[int]:
        start = task * CHUNKS_PER_TASK
        stop = min(start + CHUNKS_PER_TASK, array.chunks)
        along = np.unravel_index(np.arange(start, stop), array.grid) if array.grid else ()
        wanted = np.array(along, dtype=np.uint32).reshape(len(array.grid), stop - start).T
        for at in range(0, len(wanted), array.at_once):
            some = wanted[at : at + array.at_once]
            chunks = self.base.fetch_chunks(array.path, some)
            for place, data in zip(some.tolist(), chunks, strict=True):
                if data is not None:
                    self.target.put(array.key(place), data)
                    self.counter.add(len(data))
                    yield len(data)


def plan_zarr(session: Session, group: NodePath, variables: Sequence[str] | None) -> ZarrPlan:
    """Everything below the group, or the variables named and their coordinates."""
    nodes = [node for node in session.nodes(group) if _wanted(node, group, variables, session)]
    arrays = [
        ZarrArray(node.path, _prefix(node.path, group), node.array.shape, node.array.num_chunks)
        for node in nodes
        if node.array is not None
    ]
    documents = [(_prefix(node.path, group) + METADATA, node.user_data) for node in reversed(nodes)]
    return ZarrPlan(tuple(arrays), tuple(documents))


def prepare_target(target: ObjectStore, *, overwrite: bool) -> None:
    """Raises AlreadyExistsError; what is overwritten must be a Zarr store."""
    there = [info.key for info in target.list()]
    if not there:
        return
    if not overwrite or METADATA not in there:
        raise AlreadyExistsError("there is something at the target already")
    target.delete([METADATA])  # first: half a store is none
    target.delete(key for key in there if key != METADATA)
    if isinstance(target, LocalStore):
        _remove_empty_folders(Path(target.root))


def clear_up(target: ObjectStore) -> None:
    """What our way of writing to a folder leaves there is nothing that belongs in a Zarr store."""
    target.sync()
    if isinstance(target, LocalStore):
        Path(target.root, LOCK_NAME).unlink(missing_ok=True)


def _remove_empty_folders(root: Path) -> None:
    for folder, _, _ in root.walk(top_down=False):
        if folder != root and not any(folder.iterdir()):
            folder.rmdir()


def _wanted(node: Node, group: NodePath, variables: Sequence[str] | None, session: Session) -> bool:
    if variables is None or node.path == group:
        return True
    if node.path.parent != group or node.array is None:
        return False
    chosen = [session.node(group.child(name)) for name in variables]
    dims = {dim for one in chosen for dim in dims_of(json.loads(one.user_data))}
    return node.path.name in variables or node.path.name in dims


def _prefix(path: NodePath, group: NodePath) -> str:
    below = path.text.removeprefix(group.text).strip("/")
    return f"{below}/" if below else ""
