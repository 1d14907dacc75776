"""The metadata tables by name: what they are, their columns, how they are read."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from frazil.spark.tables import contents, history, references
from frazil.spark.tables.context import TableContext

type Part = Any  # picklable; what it is only its table knows

_VERSION = frozenset({"branch", "tag", "snapshot", "asOf"})
_PLACE = frozenset({"group", "variables", "partitionBytes"})


@dataclass(frozen=True, slots=True)
class MetadataTable:
    """`takes`: the options that mean something to it, beside those that all have."""

    about: str
    ddl: str
    read: Callable[[TableContext, Part], Iterator[pa.RecordBatch]]
    takes: frozenset[str]
    plan: Callable[[TableContext], Sequence[Part]] = field(default=lambda _: [()])

    @property
    def of_snapshot(self) -> bool:
        """Whether it is of one version; others are as they are when they are read."""
        return self.takes >= _VERSION


def _whole(
    read: Callable[[TableContext], Iterator[pa.RecordBatch]],
) -> Callable[[TableContext, Part], Iterator[pa.RecordBatch]]:
    return lambda context, _: read(context)


TABLES = {
    "history": MetadataTable(
        "the snapshot and those before it",
        history.HISTORY,
        _whole(history.read_history),
        _VERSION,
    ),
    "snapshots": MetadataTable(
        "all snapshots, of whatever branch; with `asOf` those written until then",
        history.SNAPSHOTS,
        _whole(history.read_snapshots),
        frozenset({"asOf"}),
    ),
    "refs": MetadataTable(
        "branches and tags", history.REFS, _whole(history.read_refs), frozenset()
    ),
    "nodes": MetadataTable(
        "groups and arrays at or below `group`",
        contents.NODES,
        _whole(contents.read_nodes),
        _VERSION | {"group"},
    ),
    "manifests": MetadataTable(
        "files of chunk references", contents.MANIFESTS, _whole(contents.read_manifests), _VERSION
    ),
    "chunk_refs": MetadataTable(
        "where every chunk is",
        references.CHUNK_REFS,
        references.read_chunk_refs,
        _VERSION | _PLACE,
        references.plan_chunk_refs,
    ),
    "ops_log": MetadataTable(
        "what was done to the repository; with `asOf` until then",
        history.OPS_LOG,
        _whole(history.read_ops_log),
        frozenset({"asOf"}),
    ),
    "diff": MetadataTable(
        "what changed from the version `from` to the version `to`",
        contents.DIFF,
        _whole(contents.read_diff),
        _VERSION | {"from", "to"},
    ),
    "storage": MetadataTable(
        "chunks and bytes that each array refers to, by kind",
        references.STORAGE,
        references.read_storage,
        _VERSION | _PLACE,
        references.plan_storage,
    ),
}
