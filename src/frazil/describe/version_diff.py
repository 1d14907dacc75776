"""Differences between any two snapshots: nodes, chunks, and lines of metadata.

Neither needs to be an ancestor of the other. From an ancestor to a descendant, transaction logs
tell what changed; otherwise the two snapshots are compared.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from frazil.engine.changes.diff import Diff, PathSet
from frazil.engine.history.moved_chunks import MovedChunks, find_moves
from frazil.engine.merge.comparison import NodeChanges, chunks_between, compare, refs_reader
from frazil.engine.refs import ancestry
from frazil.engine.repository import Repository
from frazil.flatbuf.flexbuffers import Json
from frazil.format.chunk_index import distinct
from frazil.format.nodes import Node
from frazil.ids import SnapshotId
from frazil.paths import NodePath

MISSING: Any = object()  # the value of what one side does not have


@dataclass(frozen=True, slots=True)
class MetadataChange:
    """A key of a node's metadata, `attributes.units`, before and after; either may be MISSING."""

    key: str
    before: Json
    after: Json


@dataclass(frozen=True, slots=True)
class VersionDiff:
    changes: Diff
    metadata: Mapping[NodePath, tuple[MetadataChange, ...]]


def compare_versions(repository: Repository, start: SnapshotId, end: SnapshotId) -> VersionDiff:
    """Changes from `start` to `end`. Raises SnapshotNotFoundError."""
    info = repository.repo_info()
    rows = [ancestry.require_row(info, each) for each in (start, end)]
    before, after = (repository.files.fetch_snapshot(each).nodes for each in (start, end))
    nodes = compare(before, after)
    if start == end:
        changes = Diff()
    elif rows[0] in ancestry.ancestor_rows(info, rows[1]):
        changes = repository.diff(start, end)
    else:
        changes = _compare(repository, nodes, (start, end))
    return VersionDiff(changes, _metadata(nodes))


def _compare(
    repository: Repository, nodes: NodeChanges, snapshots: tuple[SnapshotId, SnapshotId]
) -> Diff:
    files, info = repository.files, repository.repo_info()
    read = refs_reader(files)
    moves = find_moves(info, snapshots, version=files.settings.spec_version)
    moved = MovedChunks(files, moves, read)
    updated = [new for old, new in nodes.changed.values() if old.user_data != new.user_data]
    chunks = {}
    pairs: list[tuple[Node | None, Node]] = [(None, node) for node in nodes.created.values()]
    for old, new in [*pairs, *nodes.changed.values()]:
        found = chunks_between(old, new, read, moved.canonical(new.id))
        index = distinct(np.concatenate([found.refs.index, found.deleted]))
        if len(index):
            chunks[new.path] = index
    return Diff(
        new_groups=_paths(nodes.created.values(), arrays=False),
        new_arrays=_paths(nodes.created.values(), arrays=True),
        deleted_groups=_paths(nodes.deleted.values(), arrays=False),
        deleted_arrays=_paths(nodes.deleted.values(), arrays=True),
        updated_groups=_paths(updated, arrays=False),
        updated_arrays=_paths(updated, arrays=True),
        updated_chunks=dict(sorted(chunks.items(), key=lambda item: item[0].text)),
        moved=nodes.moves,
    )


def _paths(nodes: Iterable[Node], *, arrays: bool) -> PathSet:
    return PathSet(node.path for node in nodes if node.is_array == arrays)


def _metadata(nodes: NodeChanges) -> dict[NodePath, tuple[MetadataChange, ...]]:
    changed = [(old, new) for old, new in nodes.changed.values() if old.user_data != new.user_data]
    found = {new.path: tuple(_lines("", _load(old), _load(new))) for old, new in changed}
    return dict(sorted(found.items(), key=lambda item: item[0].text))


def _load(node: Node) -> Json:
    try:
        found: Json = json.loads(node.user_data)
    except ValueError:
        return {}
    return found


def _lines(key: str, before: Json, after: Json) -> Iterator[MetadataChange]:
    """Keys that differ; objects key by key, lists as a whole."""
    if before == after and type(before) is type(after):
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for name in (*before, *(each for each in after if each not in before)):
            deeper = f"{key}.{name}" if key else name
            yield from _lines(deeper, before.get(name, MISSING), after.get(name, MISSING))
        return
    yield MetadataChange(key, before, after)
