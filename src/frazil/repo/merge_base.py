"""Where two histories met last. The format has one parent; merges note the other in metadata.

The note is `{"frazil": {"merged": [snapshot, ...]}}`. A note that makes no sense is ignored.
"""

from collections.abc import Iterator, Mapping

from frazil.errors import InvalidInputError, ObjectNotFoundError
from frazil.flatbuf.flexbuffers import Json
from frazil.format.repo_info import RepoInfo
from frazil.ids import SnapshotId

NOTES = "frazil"
MERGED = "merged"
UPON = "upon"  # the parent of a commit that moved chunks
_MOVES_CHUNKS = ("packed", "unpacked", "squashed")  # a squash may include a commit that does
_KEPT_BY_AMEND = (MERGED, UPON, *_MOVES_CHUNKS)


def merge_base(info: RepoInfo, one: int, other: int) -> int | None:
    """Row of the newest snapshot whose changes are in both histories; None if there is none."""
    common = reachable(info, one) & reachable(info, other)
    return max(common, key=info.snapshots.flushed_at, default=None)


def reachable(info: RepoInfo, row: int) -> set[int]:
    """The snapshot and all that went into it, by parents and by merges."""
    found, todo = set[int](), [row]
    while todo:
        at = todo.pop()
        if at < 0 or at in found:
            continue
        found.add(at)
        todo.append(info.snapshots.parent(at))
        todo += [_find(info, each) for each in merged_by(info.snapshots.metadata(at))]
    return found


def _find(info: RepoInfo, snapshot: SnapshotId) -> int:
    """Its row, -1 if it is gone: a note keeps no snapshot from being collected."""
    try:
        return info.snapshots.find(snapshot)
    except ObjectNotFoundError:  # version 1 has no list to look into
        return -1


def merged_by(metadata: Mapping[str, Json]) -> Iterator[SnapshotId]:
    """Snapshots that a commit with such metadata merged."""
    notes = metadata.get(NOTES)
    listed = notes.get(MERGED) if isinstance(notes, dict) else None
    for each in listed if isinstance(listed, list) else ():
        try:
            if isinstance(each, str):
                yield SnapshotId.parse(each)
        except InvalidInputError:
            continue


def moves_chunks(metadata: Mapping[str, Json]) -> bool:
    """True for a commit that may have stored chunks elsewhere without changing them."""
    notes = metadata.get(NOTES)
    return isinstance(notes, dict) and any(name in notes for name in _MOVES_CHUNKS)


def moves_chunks_upon(metadata: Mapping[str, Json]) -> Json:
    """The snapshot whose chunks the commit moved, if it says so."""
    notes = metadata.get(NOTES)
    return notes.get(UPON) if isinstance(notes, dict) and moves_chunks(metadata) else None


def carry_over_notes(old: Mapping[str, Json], metadata: Mapping[str, Json]) -> Mapping[str, Json]:
    """Metadata of a commit that replaces another, and so merged and moved what that one did."""
    notes, given = old.get(NOTES), metadata.get(NOTES)
    if not isinstance(notes, dict):
        return metadata
    kept = {name: notes[name] for name in _KEPT_BY_AMEND if name in notes}
    own = given if isinstance(given, dict) else {}
    return with_notes(metadata, {**kept, **own}) if kept else metadata


def with_notes(metadata: Mapping[str, Json] | None, notes: Mapping[str, Json]) -> dict[str, Json]:
    """Commit metadata, with what frazil notes about how the commit came about."""
    given = dict(metadata or {})
    own = given.get(NOTES)
    return {**given, NOTES: {**(own if isinstance(own, dict) else {}), **notes}}
