"""Differences between two snapshots, or since a session began."""

from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import field
from typing import cast

import numpy as np
import numpy.typing as npt

from frazil.dataclass import dataclass
from frazil.errors import FormatError, InvalidInputError
from frazil.flatbuf.ragged import concat_arrays
from frazil.format.chunk_index import distinct
from frazil.format.nodes import Node, raw_ids
from frazil.format.snapshot import NodeNames
from frazil.format.transaction_log import Move, TransactionLog
from frazil.ids import NodeId
from frazil.paths import NodePath


class PathSet(AbstractSet[NodePath]):
    """Paths of nodes, kept as texts: there may be thousands, and most are only shown."""

    __slots__ = ("texts",)

    def __init__(self, paths: Iterable[NodePath] = ()) -> None:
        self.texts = frozenset(path.text for path in paths)

    @classmethod
    def of_texts(cls, texts: Iterable[str]) -> "PathSet":
        found = cls()
        found.texts = frozenset(texts)
        return found

    def __contains__(self, path: object) -> bool:
        return isinstance(path, NodePath) and path.text in self.texts

    def __iter__(self) -> Iterator[NodePath]:
        return map(NodePath, self.texts)

    def __len__(self) -> int:
        return len(self.texts)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, PathSet):  # without a NodePath for each
            return self.texts == other.texts
        return super().__eq__(other)

    __hash__ = None  # type: ignore[assignment]  # equal to plain sets, which have none

    def __repr__(self) -> str:
        return f"PathSet({sorted(self.texts)})"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Diff:
    new_groups: PathSet = field(default_factory=PathSet)
    new_arrays: PathSet = field(default_factory=PathSet)
    deleted_groups: PathSet = field(default_factory=PathSet)
    deleted_arrays: PathSet = field(default_factory=PathSet)
    updated_groups: PathSet = field(default_factory=PathSet)
    updated_arrays: PathSet = field(default_factory=PathSet)
    updated_chunks: dict[NodePath, npt.NDArray[np.uint32]] = field(default_factory=dict)
    moved: tuple[Move, ...] = ()


type Paths = Callable[[NodeId], NodePath | None]


class SnapshotPaths:
    """Paths by node id, as in these snapshots; an earlier one wins over a later one."""

    def __init__(self, *snapshots: NodeNames) -> None:
        self._snapshots = snapshots
        self._known: dict[bytes, str] = {}

    def __call__(self, node_id: NodeId) -> NodePath | None:
        found = self._all().get(node_id.raw)  # all at once: callers ask for many
        try:
            return None if found is None else NodePath(found)
        except InvalidInputError as error:
            raise FormatError(f"node path is not valid: {error}") from error

    def texts(self, ids: npt.NDArray[np.uint8]) -> list[str]:
        """Paths of those of the (n, 8) ids that are known, each once."""
        wanted = _distinct(_numbers(ids))
        texts: list[str] = []
        for names in self._snapshots:
            if not len(wanted):
                break
            found = _numbers(names.ids)
            places = np.minimum(np.searchsorted(wanted, found), len(wanted) - 1)
            rows, seen = np.flatnonzero(wanted[places] == found), np.zeros(len(wanted), np.bool_)
            seen[places[rows]] = True
            wanted = wanted[~seen]
            texts += names.paths.strings.take(names.paths.codes[rows]).to_texts()
        return texts

    def _all(self) -> dict[bytes, str]:
        if not self._known:
            for names in reversed(self._snapshots):
                texts = cast("list[str]", names.paths.to_texts())  # every node has one
                self._known.update(zip(raw_ids(names.ids), texts, strict=True))
        return self._known


def _numbers(ids: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
    """(n, 8) ids, each seen as a number."""
    return np.ascontiguousarray(ids).view("<u8").reshape(-1)


def _distinct(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Each once, ascending; np.unique by way of a hash table takes four times as long."""
    ordered = np.sort(numbers)
    is_first = np.ones(len(ordered), np.bool_)
    is_first[1:] = ordered[1:] != ordered[:-1]
    return ordered[is_first]


def summarise(logs: Iterable[TransactionLog], path_of: Paths) -> Diff:
    """All that `logs`, newest first, say has changed.

    Nodes are reported by path; those that `path_of` does not know, because they came and went in
    between, are left out.
    """
    logs = list(logs)

    def paths(column: str) -> PathSet:
        parts = [ids for log in logs if len(ids := getattr(log, column))]
        if not parts:
            return PathSet()
        ids = np.concatenate(parts)
        if isinstance(path_of, SnapshotPaths):
            return PathSet.of_texts(path_of.texts(ids))
        found = (path_of(NodeId(raw)) for raw in set(raw_ids(ids)))
        return PathSet(path for path in found if path is not None)

    return Diff(
        new_groups=paths("new_groups"),
        new_arrays=paths("new_arrays"),
        deleted_groups=paths("deleted_groups"),
        deleted_arrays=paths("deleted_arrays"),
        updated_groups=paths("updated_groups"),
        updated_arrays=paths("updated_arrays"),
        updated_chunks=_updated_chunks(logs, path_of),
        moved=tuple(move for log in logs for move in log.moved),
    )


def _updated_chunks(
    logs: list[TransactionLog], path_of: Paths
) -> dict[NodePath, npt.NDArray[np.uint32]]:
    parts: dict[NodePath, list[npt.NDArray[np.uint32]]] = {}
    for log in reversed(logs):  # what was appended follows what was there: nothing is to be sorted
        for node_id, index in log.updated_chunks.items():
            path = path_of(node_id)
            if path is not None and len(index):
                parts.setdefault(path, []).append(index)
    # An array that was replaced by one of another dimensionality has chunks of both.
    return {
        path: distinct(concat_arrays([i for i in listed if i.shape[1] == listed[-1].shape[1]]))
        for path, listed in sorted(parts.items(), key=lambda part: part[0].raw)
    }


def paths_in(*listings: Iterable[Node]) -> Paths:
    """Paths by node id; an earlier listing wins over a later one."""
    known: dict[NodeId, NodePath] = {}
    for listing in listings:
        for node in listing:
            known.setdefault(node.id, node.path)
    return known.get
