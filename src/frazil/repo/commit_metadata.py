"""Commit metadata: JSON that every reader gets back as it was given, and the notes of frazil in it.

The format has one parent; a merge notes the other as `{"frazil": {"merged": [snapshot, ...]}}`. A
malformed note is ignored.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from frazil.errors import InvalidInputError
from frazil.flatbuf.flexbuffers import Json
from frazil.ids import SnapshotId


def require_json(metadata: Mapping[str, Any]) -> dict[str, Json]:
    """A copy of `metadata`, keys in order.

    Raises TypeError for what JSON cannot hold, and InvalidInputError for numbers that would not
    survive: NaN, infinities, integers beyond 64 bits.
    """
    return {_key(key): _value(metadata[key], key) for key in sorted(metadata)}


def _key(key: Any) -> str:
    if not isinstance(key, str):
        raise TypeError(f"metadata keys must be strings, got {key!r}")
    return key


def _value(value: Any, where: str) -> Json:
    match value:
        case None | bool() | str():
            return value
        case int():
            if not -(2**63) <= value < 2**64:
                raise _refused(value, where, "integers have at most 64 bits")
            return value
        case float():
            if not math.isfinite(value):
                raise _refused(value, where, "JSON has no such number")
            return value
        case list() | tuple():
            return [_value(item, f"{where}[{place}]") for place, item in enumerate(value)]
        case Mapping():
            return {_key(key): _value(value[key], f"{where}.{key}") for key in value}
        case _:
            raise TypeError(f"metadata {where!r} is a {type(value).__name__}, which is not JSON")


def _refused(value: float, where: str, reason: str) -> InvalidInputError:
    return InvalidInputError(f"metadata {where!r} is {value!r}: {reason}", kind="bad-metadata")


def require_message(message: object) -> None:
    if not isinstance(message, str):
        raise TypeError(f"{type(message).__name__!r} object is not a str")


NOTES = "frazil"
MERGED = "merged"
UPON = "upon"  # the parent of a commit that moved chunks
_MOVES_CHUNKS = ("packed", "unpacked", "squashed")  # a squash may include a commit that does
_KEPT_BY_AMEND = (MERGED, UPON, *_MOVES_CHUNKS)


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
    """True for a commit that may have moved chunks to other objects without changing them."""
    notes = metadata.get(NOTES)
    return isinstance(notes, dict) and any(name in notes for name in _MOVES_CHUNKS)


def moves_chunks_upon(metadata: Mapping[str, Json]) -> Json:
    """The snapshot whose chunks the commit moved, if that is noted."""
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
