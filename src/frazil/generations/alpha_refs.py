"""Branches and tags before version 1: their keys, and JSON files with the id of a snapshot.

    A1        r/branch:NAME/SEQUENCE.json     r/tag:NAME/ref.json
    alpha1    r/NAME/SEQUENCE.json            r/NAME.json
    A2a       refs/branch:NAME/SEQUENCE.json  refs/tag:NAME/ref.json
    A2e ..    refs/branch.NAME/SEQUENCE.json  refs/tag.NAME/ref.json, later ref.json.deleted too

Every change of a branch creates a file with the next number; of two writers that create the same
file at once, one succeeds. Numbers count down in the name, from all bits of 8 bytes up to A2c and
of 5 bytes later, so that the newest file is listed first.

    A1a, A1b   {"snapshot": id, "timestamp": time, "properties": {...}}
    A1c ..     {"snapshot": id}

Ids are base 32; in the document alpha1 they are lists of 16 numbers.
"""

import binascii
import json
from base64 import urlsafe_b64decode
from collections.abc import Buffer, Iterable
from dataclasses import dataclass, field
from typing import Any

from frazil.errors import ConflictError, FormatError
from frazil.format.generation import Generation
from frazil.generations.msgpack_values import (
    LONG_SIZE,
    LONG_WIDTH,
    WIDTH,
    describe_value,
    format_time,
    long_id,
    object_id,
    parse_time,
)
from frazil.ids import ObjectId, SnapshotId, format_base32, parse_base32


@dataclass(frozen=True, slots=True)
class OldRef:
    snapshot: SnapshotId
    has_long_id: bool
    written_at_us: int | None  # None since A1c


def decode_old_ref(data: Buffer) -> OldRef:
    try:
        document = json.loads(bytes(data))
    except (ValueError, RecursionError) as error:
        raise FormatError(f"a ref is not JSON: {error}") from error
    match document:
        case {"snapshot": value, "timestamp": when}:
            raw, is_long = _snapshot(value)
            return OldRef(SnapshotId(raw), is_long, parse_time(when, "the time of a ref"))
        case {"snapshot": value}:
            raw, is_long = _snapshot(value)
            return OldRef(SnapshotId(raw), is_long, None)
    raise FormatError(f"a ref is {describe_value(document)}, expected an object with a snapshot id")


def _snapshot(value: Any) -> tuple[bytes, bool]:
    match value:
        case str() if len(value) in {LONG_WIDTH, WIDTH}:
            return object_id(value, "the snapshot of a ref"), len(value) == LONG_WIDTH
        case str():
            try:
                raw = urlsafe_b64decode(value)
            except (binascii.Error, ValueError) as error:
                raise FormatError(
                    f"a ref has no snapshot id but {describe_value(value)}"
                ) from error
            if len(raw) == LONG_SIZE:
                return raw[: ObjectId.size], True
        case list() if len(value) == LONG_SIZE:
            if all(type(each) is int and 0 <= each < 256 for each in value):
                return bytes(value)[: ObjectId.size], True
    raise FormatError(f"a ref has no snapshot id but {describe_value(value)}")


def encode_alpha1_ref(snapshot: SnapshotId, now_us: int) -> bytes:
    document = {
        "snapshot": list(long_id(snapshot.raw)),
        "timestamp": format_time(now_us),
        "properties": {},
    }
    return json.dumps(document, separators=(",", ":")).encode()


_OLD_REFS, _REFS = "r/", "refs/"
_BYTES = {8: 5, 13: 8}  # of a number, by the characters that it takes
_LONG_NUMBERS = frozenset(
    {
        Generation.A1A,
        Generation.A1B,
        Generation.A1C,
        Generation.A1D,
        Generation.A1E,
        Generation.A2A,
        Generation.A2B,
        Generation.A2C,
    }
)


@dataclass(frozen=True, slots=True)
class RefFile:
    kind: str  # branch or tag
    name: str
    key: str
    sequence: int = 0  # of a branch
    width: int = 8  # characters of the sequence
    separator: str = "."
    is_deleted: bool = False  # a tag, and this file says so


@dataclass(frozen=True, slots=True)
class RefFiles:
    """All ref files, by name of the ref."""

    branches: dict[str, list[RefFile]] = field(default_factory=dict)  # newest first
    tags: dict[str, RefFile] = field(default_factory=dict)
    deleted_tags: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, found: Iterable[RefFile | None]) -> "RefFiles":
        refs = cls()
        for file in found:
            if file is None:
                continue
            if file.kind == "branch":
                refs.branches.setdefault(file.name, []).append(file)
            elif file.is_deleted:
                refs.deleted_tags.add(file.name)
            else:
                refs.tags[file.name] = file
        for files in refs.branches.values():
            files.sort(key=lambda file: -file.sequence)
        for name in refs.deleted_tags:
            refs.tags.pop(name, None)
        return refs

    def without(self, keys: Iterable[str]) -> "RefFiles":
        """All files but those with these keys."""
        gone = set(keys)
        branches = {
            name: [file for file in files if file.key not in gone]
            for name, files in self.branches.items()
        }
        return RefFiles(
            {name: files for name, files in branches.items() if files},
            {name: file for name, file in self.tags.items() if file.key not in gone},
            self.deleted_tags,
        )


def refs_folder(generation: Generation) -> str:
    return _OLD_REFS if generation.value.lower().startswith(("a1", "alpha1")) else _REFS


def parse_ref_key(key: str, *, documented: bool = False) -> RefFile | None:
    """Parses the key of a ref file; None for another file. `documented`: as in alpha1."""
    match key.split("/"):
        case ["r", file] if documented and file.endswith(".json"):
            return RefFile("tag", file.removesuffix(".json"), key)
        case ["r", name, file] if documented:
            return _branch(name, file, key, separator="")
        case [("r" | "refs"), folder, file] if not documented:
            return _parse_folder(folder, file, key)
    return None


def _parse_folder(folder: str, file: str, key: str) -> RefFile | None:
    for kind in ("branch", "tag"):
        separator, name = folder[len(kind) : len(kind) + 1], folder[len(kind) + 1 :]
        if not folder.startswith(kind) or separator not in {":", "."} or not name:
            continue
        if kind == "branch":
            return _branch(name, file, key, separator=separator)
        if file in {"ref.json", "ref.json.deleted"}:
            return RefFile(kind, name, key, separator=separator, is_deleted=file != "ref.json")
    return None


def _branch(name: str, file: str, key: str, *, separator: str) -> RefFile | None:
    text = file.removesuffix(".json")
    size = _BYTES.get(len(text))
    if text == file or size is None:
        return None
    try:
        number = int.from_bytes(parse_base32(text, size), "big")
    except ValueError:
        return None
    sequence = (1 << 8 * size) - 1 - number
    return RefFile("branch", name, key, sequence, len(text), separator)


def branch_file_key(generation: Generation, name: str, sequence: int) -> str:
    size = 8 if generation in _LONG_NUMBERS else 5
    number = (1 << 8 * size) - 1 - sequence
    if number < 0:
        raise ConflictError(message=f"branch `{name}` has had as many commits as it can number")
    file = f"{format_base32(number.to_bytes(size, 'big'))}.json"
    if generation is Generation.ALPHA1:
        return f"{_OLD_REFS}{name}/{file}"
    return f"{_REFS}branch.{name}/{file}"


def tag_file_key(generation: Generation, name: str) -> str:
    if generation is Generation.ALPHA1:
        return f"{_OLD_REFS}{name}.json"
    return f"{_REFS}tag.{name}/ref.json"
