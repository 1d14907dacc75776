"""Commit metadata: JSON that every reader gets back as it was given, and the notes of frazil in it.

The format has one parent; a merge notes the other as `{"frazil": {"merged": [snapshot, ...]}}`. A
malformed note is ignored.
"""

import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import Any

from frazil.dataclass import dataclass
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
                raise _metadata_error(value, where, "integers have at most 64 bits")
            return value
        case float():
            if not math.isfinite(value):
                raise _metadata_error(value, where, "JSON has no such number")
            return value
        case list() | tuple():
            return [_value(item, f"{where}[{place}]") for place, item in enumerate(value)]
        case Mapping():
            return {_key(key): _value(value[key], f"{where}.{key}") for key in value}
        case _:
            raise TypeError(f"metadata {where!r} is a {type(value).__name__}, which is not JSON")


def _metadata_error(value: float, where: str, reason: str) -> InvalidInputError:
    return InvalidInputError(f"metadata {where!r} is {value!r}: {reason}", kind="bad-metadata")


def require_message(message: object) -> None:
    if not isinstance(message, str):
        raise TypeError(f"{type(message).__name__!r} object is not a str")


NOTES = "frazil"
MERGED = "merged"
UPON = "upon"  # the parent of a commit that moved chunks
_MOVES_CHUNKS = ("packed", "unpacked", "squashed")  # a squash may include a commit that does
_KEPT_BY_AMEND = (MERGED, UPON, *_MOVES_CHUNKS)


def merged_snapshots(metadata: Mapping[str, Json]) -> Iterator[SnapshotId]:
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


# Idempotency keys of commits, which outlive them.
#
# A job that must be done once gives its commit a key, and finds it in the history of the branch
# when it is run again. The key is in the metadata, as `{"frazil": {"idempotency_key": ...}}`. Where
# a commit leaves a history but its work stays, another commit takes its keys over:
#
#     squash, amend       the commit that takes the place of the others
#     expiry              the commit whose parents are gone
#     merge, cherry-pick  the commit that brings the work to the branch
#
# as `{"frazil": {"idempotency_keys": {"numbered": {"txn:nightly:": [[1, 7]]}, "other": [...]}}}`.
# Keys that end in a number are kept as ranges of it, so that a stream of a million batches takes a
# line. Of more than `_MOST` ranges or other keys the oldest are dropped.

KEY = "idempotency_key"
CARRIED = "idempotency_keys"
_NUMBERED, _OTHER = "numbered", "other"
_MOST = 2000  # ranges of one prefix, prefixes, and other keys
_NUMBER = r"(?s)(.*?)(0|[1-9][0-9]{0,14})"

type _Range = tuple[int, int]  # first and last


@dataclass(slots=True)
class CommitKeys:
    """Keys in the order of their commits, oldest first, as far as that is known."""

    numbered: dict[str, list[_Range]] = field(default_factory=dict)  # ascending, by prefix
    other: dict[str, None] = field(default_factory=dict)

    def add(self, key: str) -> None:
        match = re.fullmatch(_NUMBER, key)
        if match is None:
            self.other.pop(key, None)
            self.other[key] = None
        else:
            self.add_range(match[1], (int(match[2]), int(match[2])))

    def add_all(self, keys: "CommitKeys") -> None:
        for prefix, ranges in keys.numbered.items():
            for each in ranges:
                self.add_range(prefix, each)
        for key in keys.other:
            self.other.pop(key, None)
            self.other[key] = None

    def add_range(self, prefix: str, new: _Range) -> None:
        self.numbered[prefix] = ranges = self.numbered.pop(prefix, [])  # the newest from now on
        start = bisect_left(ranges, new[0] - 1, key=lambda each: each[1])
        stop = bisect_right(ranges, new[1] + 1, key=lambda each: each[0])
        touched = [new, *ranges[start:stop]]
        ranges[start:stop] = [(min(touched)[0], max(each[1] for each in touched))]

    def __contains__(self, key: object) -> bool:
        match = re.fullmatch(_NUMBER, key) if isinstance(key, str) else None
        if match is None:
            return key in self.other
        number = int(match[2])
        return any(first <= number <= last for first, last in self.numbered.get(match[1], ()))

    def __bool__(self) -> bool:
        return bool(self.numbered or self.other)

    def to_json(self) -> dict[str, Json]:
        numbered: dict[str, Json] = {
            prefix: [[first, last] for first, last in ranges[-_MOST:]]
            for prefix, ranges in _keep_newest(self.numbered.items())
        }
        return {_NUMBERED: numbered, _OTHER: _keep_newest(self.other)}


def _keep_newest[T](items: Iterable[T]) -> list[T]:
    return list(items)[-_MOST:]


def own_key(metadata: Mapping[str, Json]) -> str | None:
    """The key that a commit was given. A job without one notes its own name, which is none."""
    notes = metadata.get(NOTES)
    if not isinstance(notes, dict):
        return None
    key = notes.get(KEY)
    return key if isinstance(key, str) and key != notes.get("job") else None


def carried_keys(metadata: Mapping[str, Json]) -> CommitKeys:
    """Keys taken over from other commits. Malformed entries are ignored."""
    keys, notes = CommitKeys(), metadata.get(NOTES)
    found = notes.get(CARRIED) if isinstance(notes, dict) else None
    if not isinstance(found, dict):
        return keys
    numbered, other = found.get(_NUMBERED), found.get(_OTHER)
    for prefix, ranges in numbered.items() if isinstance(numbered, dict) else ():
        for found_range in map(_range, _items(ranges)):
            if found_range is not None:
                keys.add_range(prefix, found_range)
    keys.other.update((key, None) for key in _items(other) if isinstance(key, str))
    return keys


def _items(found: Json) -> list[Json]:
    return found if isinstance(found, list) else []


def _range(found: Json) -> _Range | None:
    match found:
        case [int(first), int(last)] if first <= last:
            return first, last
    return None


def has_key(metadata: Mapping[str, Json], key: str) -> bool:
    """True if the commit was made with the key, or took it over from one that was."""
    notes = metadata.get(NOTES)
    if not isinstance(notes, dict):
        return False
    return notes.get(KEY) == key or (CARRIED in notes and key in carried_keys(metadata))


def keys_of(commits: Iterable[Mapping[str, Json]]) -> CommitKeys:
    """All keys of commits with such metadata, given from the oldest on."""
    keys = CommitKeys()
    for metadata in commits:
        if not isinstance(metadata.get(NOTES), dict):
            continue
        keys.add_all(carried_keys(metadata))
        key = own_key(metadata)
        if key is not None:
            keys.add(key)
    return keys


def with_keys(metadata: Mapping[str, Json], keys: CommitKeys) -> dict[str, Json]:
    """Commit metadata with the keys of other commits, beside those that it carries."""
    if not keys:
        return dict(metadata)
    carried = CommitKeys()
    carried.add_all(keys)
    carried.add_all(carried_keys(metadata))
    return with_notes(metadata, {CARRIED: carried.to_json()})


def strip_carried_keys(metadata: Mapping[str, Json]) -> dict[str, Json]:
    """Commit metadata as it was before keys were added to it."""
    notes = metadata.get(NOTES)
    if not isinstance(notes, dict) or CARRIED not in notes:
        return dict(metadata)
    left = {name: value for name, value in notes.items() if name != CARRIED}
    others = {name: value for name, value in metadata.items() if name != NOTES}
    return {**others, NOTES: left} if left else others
