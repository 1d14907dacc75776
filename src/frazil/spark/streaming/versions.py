"""A group of arrays before and after a commit, and what its transaction log says of them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from frazil.errors import NodeNotFoundError
from frazil.format.index_keys import distinct
from frazil.format.txlog import TransactionLog
from frazil.ids import NodeId
from frazil.paths import NodePath
from frazil.repo.logs import ids_in, united
from frazil.spark.chunk_scan import chunk_kinds
from frazil.spark.description import ArrayDescription
from frazil.spark.opened import Opened
from frazil.spark.streaming.commits import Commit

type Index = npt.NDArray[np.uint32]  # (n, ndim)


@dataclass(frozen=True, slots=True, eq=False)
class Versions:
    before: Opened
    after: Opened
    log: TransactionLog

    def arrays(self, group: str) -> Iterator[tuple[str, "ArrayVersions"]]:
        """By name, those that are or were in the group."""
        old, new = arrays_in(self.before, group), arrays_in(self.after, group)
        for name in dict.fromkeys((*old, *new)):
            yield name, self.of(old.get(name), new.get(name))

    def of(self, old: ArrayDescription | None, new: ArrayDescription | None) -> "ArrayVersions":
        return ArrayVersions(
            old,
            new,
            node_id=_node_id(self.after, new),
            is_same=new is not None
            and old is not None
            and _node_id(self.before, old) == _node_id(self.after, new)
            and (old.chunks, old.dims) == (new.chunks, new.dims),
        )

    def touches(self, array: "ArrayVersions") -> bool:
        """Whether its metadata or its values may have changed."""
        if not array.is_same or array.node_id is None:
            return True
        return array.node_id in self.log.updated_chunks or array.node_id in ids_in(
            self.log.updated_arrays
        )

    def logged(self, array: "ArrayVersions") -> Index:
        """Chunks of the new array that were written or deleted."""
        ndim = 0 if array.new is None else len(array.new.shape)
        found = None if array.node_id is None else self.log.updated_chunks.get(array.node_id)
        return no_chunks(ndim) if found is None or found.shape[1] != ndim else found


@dataclass(frozen=True, slots=True, eq=False)
class ArrayVersions:
    """One path. `is_same`: the same node on the same grid, perhaps of another shape."""

    old: ArrayDescription | None
    new: ArrayDescription | None
    node_id: NodeId | None  # of `new`
    is_same: bool


def open_versions(commit: Commit, before: Opened, after: Opened) -> Versions:
    logs = after.session.files.fetch_logs(list(commit.logs))
    return Versions(before, after, united(commit.snapshot, logs[::-1]))


def arrays_in(opened: Opened, group: str) -> Mapping[str, ArrayDescription]:
    """None if there is no such group."""
    try:
        return opened.describe(group).arrays
    except NodeNotFoundError:
        return {}


def stored_chunks(opened: Opened, array: ArrayDescription) -> Index:
    """Index of every chunk that was written."""
    found = [refs.index for refs in opened.session.chunk_refs(NodePath(array.path))]
    return distinct(np.concatenate(found)) if found else no_chunks(len(array.shape))


def is_stored(
    opened: Opened, array: ArrayDescription | None, index: Index
) -> npt.NDArray[np.bool_]:
    if array is None:
        return np.zeros(len(index), dtype=np.bool_)
    return chunk_kinds(opened, NodePath(array.path), index) > 0


def no_chunks(ndim: int) -> Index:
    return np.zeros((0, ndim), dtype=np.uint32)


def _node_id(opened: Opened, array: ArrayDescription | None) -> NodeId | None:
    return None if array is None else opened.session.node(NodePath(array.path)).id
