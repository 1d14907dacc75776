"""What a rechunk will do: which arrays are written anew, in which boxes."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from math import prod

import numpy as np

from frazil.errors import AlreadyExistsError, InvalidInputError
from frazil.format.snapshot import Node
from frazil.paths import NodePath
from frazil.repo.session import Session
from frazil.repo.writer import ChunkWriter
from frazil.spark.jobs.regions import store_region
from frazil.spark.pipelines.boxes import Cut, choose_box, region_shape, task_bytes
from frazil.spark.pipelines.reading import read_bounded
from frazil.spark.pipelines.relayout import Layout, Wanted, dims_of, layout_of, relayout
from frazil.spark.pipelines.running import Written
from frazil.zarrstore.arrays import open_array

TEXT_BYTES = 32  # a guess: text has no fixed size


@dataclass(frozen=True, slots=True)
class Rewrite:
    """An array whose values are read at `source` and stored at `target`, encoded anew."""

    source: NodePath
    target: NodePath
    document: bytes
    cut: Cut
    stored: tuple[int, ...]  # lengths of what the source is stored in
    itemsize: int

    @property
    def size_bytes(self) -> int:
        return prod(self.cut.shape) * self.itemsize

    @property
    def layout(self) -> Layout:
        return layout_of(json.loads(self.document))


@dataclass(frozen=True, slots=True)
class Copy:
    """A node that only changes its place; the chunks of an array are referred to, not copied."""

    source: NodePath
    target: NodePath
    document: bytes
    is_array: bool


@dataclass(frozen=True, slots=True)
class RechunkPlan:
    path: NodePath
    into: NodePath
    snapshot: str  # what is read
    rewrites: tuple[Rewrite, ...]
    copies: tuple[Copy, ...]

    @property
    def in_place(self) -> bool:
        return self.path == self.into

    @property
    def size_bytes(self) -> int:
        return sum(one.size_bytes for one in self.rewrites)

    @property
    def tasks(self) -> int:
        return sum(len(one.cut) for one in self.rewrites)


@dataclass(frozen=True)
class RechunkJob:
    """One task for each box of each array; picklable."""

    base: Session  # read-only
    rewrites: tuple[Rewrite, ...]
    writer: ChunkWriter

    @cached_property
    def ends(self) -> list[int]:
        """Of each array's tasks."""
        return list(accumulate(len(one.cut) for one in self.rewrites))

    def __len__(self) -> int:
        return self.ends[-1] if self.rewrites else 0

    def run(self, task: int) -> Iterator[Written]:
        array = int(np.searchsorted(self.ends, task, side="right"))
        one = self.rewrites[array]
        region = one.cut.region(task - (self.ends[array] - len(one.cut)))
        values = read_bounded(self.base, one.source, region, one.stored, itemsize=one.itemsize)
        refs = store_region(one.document, self.writer, region, values)
        yield Written(array, refs, prod(region_shape(region)) * one.itemsize)


def plan_rechunk(
    session: Session, path: NodePath, into: NodePath, wanted: Wanted, *, parallelism: int
) -> RechunkPlan:
    """Raises NodeNotFoundError, InvalidInputError, AlreadyExistsError; reads no chunk.

    In a group, dimension coordinates stay as they are: they are best read at once.
    """
    root = session.node(path)
    if into != path and session.find_node(into) is not None:
        raise AlreadyExistsError(f"there is a node at `{into}` already")
    for above in into.ancestors:
        node = session.find_node(above)
        if node is not None and node.array is not None:
            raise InvalidInputError(
                f"cannot create `{into}`: `{above}` is an array", kind="not-a-group"
            )
    nodes = [root] if root.array is not None else list(session.nodes(path))
    documents = [_new_document(node, root, wanted) for node in nodes]
    _require_known_dims(nodes, wanted)
    changed = [new != node.user_data for node, new in zip(nodes, documents, strict=True)]
    total = sum(
        _size_bytes(session, node) for node, differs in zip(nodes, changed, strict=True) if differs
    )
    limit = task_bytes(total, parallelism)
    rewrites, copies = [], []
    for node, document, differs in zip(nodes, documents, changed, strict=True):
        target = _moved(node.path, path, into)
        if differs:
            rewrites.append(_rewrite(session, node, target, document, limit))
        elif into != path:
            copies.append(Copy(node.path, target, node.user_data, node.array is not None))
    return RechunkPlan(path, into, str(session.snapshot_id), tuple(rewrites), tuple(copies))


def _new_document(node: Node, root: Node, wanted: Wanted) -> bytes:
    if node.array is None:
        return node.user_data
    if node.path != root.path and _is_coordinate(node):
        return node.user_data
    return relayout(node.user_data, wanted, node.path.text)


def _is_coordinate(node: Node) -> bool:
    return dims_of(json.loads(node.user_data)) == (node.path.name,)


def _require_known_dims(nodes: Sequence[Node], wanted: Wanted) -> None:
    known = {d for n in nodes if n.array is not None for d in dims_of(json.loads(n.user_data))}
    unknown = wanted.dims() - known
    if unknown:
        raise InvalidInputError(
            f"no dimension {', '.join(map(repr, sorted(unknown)))};"
            f" there is {', '.join(sorted(known)) or 'none'}"
        )


def _rewrite(
    session: Session, node: Node, target: NodePath, document: bytes, limit: int
) -> Rewrite:
    told = json.loads(document)
    shape = tuple(told["shape"])
    unit = layout_of(told).stored or ()
    source = layout_of(json.loads(node.user_data)).stored or unit
    itemsize = _itemsize(session, node)
    box = choose_box(shape, unit, source, itemsize=itemsize, max_bytes=limit)
    return Rewrite(node.path, target, document, Cut(shape, box), source, itemsize)


def _itemsize(session: Session, node: Node) -> int:
    dtype = open_array(session, node.path).dtype
    return TEXT_BYTES if dtype.kind in "OT" else dtype.itemsize


def _size_bytes(session: Session, node: Node) -> int:
    return prod(node.array.shape if node.array else ()) * _itemsize(session, node)


def _moved(path: NodePath, old: NodePath, new: NodePath) -> NodePath:
    below = path.text.removeprefix(old.text).strip("/")
    return NodePath.from_key_prefix(f"{new.text}/{below}")
