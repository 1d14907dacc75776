"""The plan of a rechunk: which arrays are rewritten, in which boxes, in one pass or in two.

A task makes a box of whole new chunks. If these are much longer than the old ones along one axis
and shorter along another, every task touches every old chunk: in one pass all of the source is
read for each of them. In two passes it is read once, in boxes of whole old chunks, and its values
wait in scratch objects (scratch) until the new chunks are made of them: each is moved three times.
Of both plans, with boxes of several sizes, the one that moves the fewest bytes is taken.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from frazil.engine.session.session import Session
from frazil.errors import AlreadyExistsError, InvalidInputError
from frazil.format.nodes import Node
from frazil.paths import NodePath
from frazil.spark.pipelines.relayout import Layout, Wanted, dims_of, layout_of, relayout
from frazil.spark.pipelines.scratch import Exchange
from frazil.spark.runtime.jobs import Cut, choose_box, task_bytes
from frazil.zarrstore.arrays import open_array

TEXT_BYTES = 32  # a guess: text has no fixed size
MOST_BOX_BYTES = 256 << 20  # of a task, where smaller ones would move far more bytes
REUSED_BYTES = 30 << 20  # the C library uses memory of up to 32 MiB again; more is new each time
REQUEST_BYTES = 64 << 10  # what a request costs beside the bytes that it moves
_WORTH = 1.25  # larger tasks and scratch must save as much


@dataclass(frozen=True, slots=True)
class Rewrite:
    """An array whose values are read at `source` and stored at `target`, encoded again.

    With an exchange there are two passes, and boxes of `cut` are made of scratch objects.
    """

    source: NodePath
    target: NodePath
    document: bytes
    cut: Cut
    decoded: tuple[int, ...]  # lengths of what is read of the source at least
    itemsize: int
    exchange: Exchange | None = None

    @property
    def size_bytes(self) -> int:
        return prod(self.cut.shape) * self.itemsize

    @property
    def layout(self) -> Layout:
        return layout_of(json.loads(self.document))

    @property
    def chunks(self) -> int:
        """Chunks that the result may have; shards, where there are some."""
        return len(Cut(self.cut.shape, self.layout.stored or self.cut.box))

    @property
    def reads(self) -> float:
        """Times that a chunk of the source is read, on average: once for each box that it is in."""
        chunks = len(Cut(self.cut.shape, self.decoded))
        return self._read_boxes.count_touched(self.decoded) / max(1, chunks)

    @property
    def read_bytes(self) -> int:
        """Bytes of values that are read of the source."""
        return int(self.reads * self.size_bytes)

    @property
    def scratch_bytes(self) -> int:
        return 0 if self.exchange is None else self.size_bytes

    @property
    def cost_bytes(self) -> int:
        """Bytes that are read, and written to and read from scratch; and so much per request."""
        requests = self._read_boxes.count_touched(self.decoded)
        if self.exchange is not None:
            requests += self.exchange.objects + self.exchange.parts
        return self.read_bytes + 2 * self.scratch_bytes + requests * REQUEST_BYTES

    @property
    def _read_boxes(self) -> Cut:
        return self.cut if self.exchange is None else self.exchange.first


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
        """Tasks that make chunks."""
        return sum(len(one.cut) for one in self.rewrites)

    @property
    def staged(self) -> tuple[Rewrite, ...]:
        """Arrays that are rewritten in two passes."""
        return tuple(one for one in self.rewrites if one.exchange is not None)

    @property
    def scratch_objects(self) -> int:
        """Scratch objects, one for each task of the first pass."""
        return sum(one.exchange.objects for one in self.staged if one.exchange is not None)

    @property
    def scratch_bytes(self) -> int:
        """Bytes that are in the storage of the repository while the job runs."""
        return sum(one.scratch_bytes for one in self.rewrites)

    @property
    def read_bytes(self) -> int:
        """Bytes of values that are read of the sources."""
        return sum(one.read_bytes for one in self.rewrites)


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
    most = min(MOST_BOX_BYTES, total // parallelism)
    limits = list(_limits(task_bytes(total, parallelism), most))
    rewrites, copies = list[Rewrite](), list[Copy]()
    for node, document, differs in zip(nodes, documents, changed, strict=True):
        target = _move_path(node.path, path, into)
        if differs:
            rewrites.append(_rewrite(session, node, target, document, limits))
        elif into != path:
            copies.append(Copy(node.path, target, node.user_data, node.array is not None))
    numbered = tuple(_number_objects(rewrites))
    return RechunkPlan(path, into, str(session.snapshot_id), numbered, tuple(copies))


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


def _limits(least: int, most: int) -> Iterator[int]:
    """Sizes of boxes to choose from."""
    yield least
    while least < most:
        least = min(2 * least, most)
        yield least


def _rewrite(
    session: Session, node: Node, target: NodePath, document: bytes, limits: Sequence[int]
) -> Rewrite:
    """The smallest boxes, in one pass if possible, that cost little more than the best plan."""
    told = json.loads(document)
    shape = tuple(told["shape"])
    unit = layout_of(told).stored or ()
    decoded = layout_of(json.loads(node.user_data)).chunks or unit
    dtype, itemsize = open_array(session, node.path).dtype, _itemsize(session, node)

    def direct(limit: int) -> Rewrite:
        box = choose_box(shape, unit, decoded, itemsize=itemsize, max_bytes=limit)
        return Rewrite(node.path, target, document, Cut(shape, box), decoded, itemsize)

    def staged(limit: int) -> Rewrite:
        one = direct(limit)
        first = choose_box(shape, decoded, one.cut.box, itemsize=itemsize, max_bytes=limit)
        if _is_text(dtype) or prod(first) * itemsize > MOST_BOX_BYTES:
            return one
        return replace(one, exchange=Exchange(Cut(shape, first), one.cut, dtype))

    plans = [direct(limits[0]), staged(min(limits[0], REUSED_BYTES))]
    plans += [make(limit) for limit in limits for make in (direct, staged)]
    costs = [plan.cost_bytes for plan in plans]
    return next(p for p, cost in zip(plans, costs, strict=True) if cost <= _WORTH * min(costs))


def _number_objects(rewrites: Sequence[Rewrite]) -> Iterator[Rewrite]:
    """Scratch objects of all arrays, numbered one after the other."""
    start = 0
    for one in rewrites:
        if one.exchange is None:
            yield one
        else:
            yield replace(one, exchange=replace(one.exchange, start=start))
            start += one.exchange.objects


def _itemsize(session: Session, node: Node) -> int:
    dtype = open_array(session, node.path).dtype
    return TEXT_BYTES if _is_text(dtype) else dtype.itemsize


def _is_text(dtype: np.dtype[Any]) -> bool:
    return dtype.hasobject or dtype.kind == "T"


def _size_bytes(session: Session, node: Node) -> int:
    return prod(node.array.shape if node.array else ()) * _itemsize(session, node)


def _move_path(path: NodePath, old: NodePath, new: NodePath) -> NodePath:
    below = path.text.removeprefix(old.text).strip("/")
    return NodePath.from_key_prefix(f"{new.text}/{below}")
