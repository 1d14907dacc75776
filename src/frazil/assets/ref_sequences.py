"""Where branches and tags are in the generations before version 1. FORMATS: 4.1.

    A1        r/branch:NAME/SEQUENCE.json     r/tag:NAME/ref.json
    alpha1    r/NAME/SEQUENCE.json            r/NAME.json
    A2a       refs/branch:NAME/SEQUENCE.json  refs/tag:NAME/ref.json
    A2e ..    refs/branch.NAME/SEQUENCE.json  refs/tag.NAME/ref.json, later ref.json.deleted too

Every change of a branch adds a file with the next number, and the file is what decides: of two
that want to make it at once, one does. Numbers count down in the name, from all bits of 8 bytes up
to A2c and of 5 bytes later, so that the newest is listed first.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from frazil.errors import ConflictError
from frazil.format.generation import Generation
from frazil.ids import format_base32, parse_base32

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
    """All of them, by name."""

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
        """The same, as if these files were not there."""
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
    """None for a file that is none; `documented`: as in alpha1."""
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
