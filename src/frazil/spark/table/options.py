"""Options of `spark.read.format("icechunk")`, from text to values.

Spark lower-cases the names. An option that does not exist is an error: a misspelt `sel` would
otherwise read everything.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import StrEnum
from typing import Any

from frazil.errors import InvalidInputError
from frazil.spark.runtime.access import NO_ACCESS, AccessText
from frazil.spark.runtime.storage_options import is_storage_option, place_of_options
from frazil.spark.table.metadata_tables import TABLES
from frazil.spark.table.selection import (
    ALL_POSITIONS,
    EVERYTHING,
    IndexSelection,
    Selection,
    format_index_selection,
    format_selection,
    parse_index_selection,
    parse_selection,
)
from frazil.spark.table.timetext import find_instant, format_micros

DEFAULT_PARTITION_BYTES = 32 * 2**20
DEFAULT_BATCH_ROWS = 65_536


@dataclass(frozen=True, slots=True)
class Version:
    """A version: of a branch (possibly as of a time), a tag, or a snapshot id."""

    branch: str | None = None
    tag: str | None = None
    snapshot: str | None = None
    as_of_us: int | None = None

    def __post_init__(self) -> None:
        named = {"branch": self.branch, "tag": self.tag, "snapshot": self.snapshot}
        given = [name for name, value in named.items() if value is not None]
        if len(given) > 1:
            raise InvalidInputError(f"options {' and '.join(given)} exclude each other")
        if self.as_of_us is not None and given not in ([], ["branch"]):
            raise InvalidInputError(f"option asOf goes with a branch, not with {given[0]}")


class Mode(StrEnum):
    ROWS = "rows"
    CHUNKS = "chunks"


class ChunkData(StrEnum):
    """Contents of the column `data` in the mode `chunks`."""

    DECODED = "decoded"  # bytes of the values, in C order
    ENCODED = "encoded"  # bytes as they are stored
    VALUES = "values"  # a list


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """Options of a read. `columns` removes columns of the table that `variables` make.

    A metadata `table` is read if one is named, else rows or chunks, as `mode` says.
    """

    path: str
    mode: Mode = Mode.ROWS
    table: str | None = None
    group: str = "/"
    variables: tuple[str, ...] | None = None
    columns: tuple[str, ...] | None = None
    dims: tuple[str, ...] | None = None
    selection: Selection = EVERYTHING
    isel: IndexSelection = ALL_POSITIONS
    version: Version = field(default_factory=Version)
    decode_cf: bool = True
    partition_bytes: int = DEFAULT_PARTITION_BYTES
    batch_rows: int = DEFAULT_BATCH_ROWS
    chunk_data: ChunkData = ChunkData.DECODED
    include_missing: bool = False
    start: str | None = None  # the option `from`
    end: str | None = None  # the option `to`
    access: AccessText = NO_ACCESS
    secret_storage: str = field(default="", repr=False)


OPTIONS = {
    "path": "the repository: a folder, or a location such as s3://bucket/prefix",
    "mode": "rows (a row per element, by default) or chunks (a row per chunk)",
    "table": "instead of what is in arrays, a table about them: history, chunk_refs and so on",
    "group": "path of the group in it, / by default",
    "variables": "names, by commas or as a JSON list; by default all that are not coordinates",
    "columns": "columns to keep, written like `variables`; all by default",
    "dims": "only variables of exactly these dimensions, in any order",
    "sel": "JSON object of dimension names: a value, a list, or start and stop",
    "isel": "JSON object of dimension names: a position, a list, or start and stop (excluded)",
    "branch": "main by default",
    "tag": "instead of a branch",
    "snapshot": "id, instead of a branch",
    "asOf": "ISO time: the branch as it was then",
    "decodeCf": "true or false: whether attributes are used to decode times, scales and fills",
    "partitionBytes": f"size of a task, {DEFAULT_PARTITION_BYTES} by default",
    "batchRows": f"rows handed to Spark at once, {DEFAULT_BATCH_ROWS} by default",
    "decode": "of mode chunks: false gives bytes as they are stored",
    "values": "of mode chunks: true gives lists instead of bytes",
    "includeMissing": "of mode chunks: true also gives chunks that were never written",
    "from": "of table diff: a tag, a branch or a snapshot; by default the one before `to`",
    "to": "of table diff, likewise; by default the version",
    "authorize": "where virtual chunks may be read: JSON object of url prefixes to words",
    "secretStorage": "how the bucket of `path` is reached; only frazil.spark.read writes it",
    "secretAccess": "as `authorize`, with secrets; only frazil.spark.read writes it",
}


_EVERYWHERE = {
    "path", "table", "mode", "batchRows", "authorize", "secretStorage", "secretAccess",
}  # fmt: skip
_VERSION = {"branch", "tag", "snapshot", "asOf"}
_OF_MODE = {
    Mode.ROWS: _VERSION
    | {"group", "variables", "columns", "dims", "sel", "isel", "decodeCf", "partitionBytes"},
    Mode.CHUNKS: _VERSION
    | {"group", "variables", "dims", "sel", "isel", "partitionBytes"}
    | {"decode", "values", "includeMissing"},
}


def parse_options(options: Mapping[str, str]) -> ReadOptions:
    """Parses the options that Spark passes. InvalidInputError names what is wrong and what there
    is.
    """
    given = {name.lower(): text for name, text in options.items() if not is_storage_option(name)}
    names = {name.lower(): name for name in OPTIONS}
    for unknown in given.keys() - names.keys():
        close = get_close_matches(unknown, names, n=1)
        hint = f" (did you mean {names[close[0]]!r}?)" if close else ""
        raise InvalidInputError(
            f"unknown option {unknown!r}{hint}; the options are {', '.join(OPTIONS)}"
            " and storage.<name>"
        )
    if not given.get("path"):
        raise InvalidInputError("option 'path' is missing: the repository to read")
    _require_fitting({names[name] for name in given}, given)
    readers: dict[str, tuple[str, Callable[[str, str], Any]]] = {
        "mode": ("mode", _mode),
        "table": ("table", _text),
        "group": ("group", _group),
        "variables": ("variables", _names),
        "columns": ("columns", _names),
        "dims": ("dims", _names),
        "sel": ("selection", lambda _, text: parse_selection(text)),
        "isel": ("isel", lambda _, text: parse_index_selection(text)),
        "decodeCf": ("decode_cf", _boolean),
        "partitionBytes": ("partition_bytes", parse_positive),
        "batchRows": ("batch_rows", parse_positive),
        "includeMissing": ("include_missing", _boolean),
        "from": ("start", _text),
        "to": ("end", _text),
    }
    parsed = {
        attribute: read_option(read, name, given[name.lower()])
        for name, (attribute, read) in readers.items()
        if name.lower() in given
    }
    place = place_of_options(options)
    return ReadOptions(
        path=place.path,
        version=_version(given),
        access=AccessText(given.get("authorize", ""), given.get("secretaccess", "")),
        secret_storage=place.secret,
        chunk_data=_chunk_data(given),
        **parsed,
    )


def read_option(read: Callable[[str, str], Any], name: str, text: str) -> Any:
    """The value of one option; JSON that is nested too deeply is an error as any other."""
    try:
        return read(name, text)
    except RecursionError:
        raise InvalidInputError(f"option {name!r} is nested too deeply") from None


def _require_fitting(names: set[str], given: Mapping[str, str]) -> None:
    """Checks that the options go with the mode or the table."""
    table, mode = given.get("table"), _mode("mode", given.get("mode", Mode.ROWS))
    if table is None:
        taken, reads = frozenset(_OF_MODE[mode]), f"mode {str(mode)!r}"
    elif table not in TABLES:
        close = get_close_matches(table, TABLES, n=1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        raise InvalidInputError(f"no table {table!r}{hint}; the tables are {', '.join(TABLES)}")
    elif "mode" in names:
        raise InvalidInputError("options table and mode exclude each other")
    else:
        taken, reads = TABLES[table].takes, f"table {table!r}"
    astray = sorted(names - taken - _EVERYWHERE)
    if astray:
        own = ", ".join(name for name in OPTIONS if name in taken) or "none"
        raise InvalidInputError(
            f"option {', '.join(map(repr, astray))} means nothing to {reads};"
            f" the options of its own are {own}"
        )


def format_options(options: ReadOptions) -> dict[str, str]:
    """Inverse of `parse_options`; says only what is not the default."""
    version = options.version
    micros = version.as_of_us
    optional = {
        "variables": None if options.variables is None else json.dumps(options.variables),
        "columns": None if options.columns is None else json.dumps(options.columns),
        "mode": None if options.mode is Mode.ROWS else str(options.mode),
        "table": options.table,
        "dims": None if options.dims is None else json.dumps(options.dims),
        "sel": format_selection(options.selection) if options.selection.constraints else None,
        "isel": format_index_selection(options.isel) if options.isel.constraints else None,
        "decode": "false" if options.chunk_data is ChunkData.ENCODED else None,
        "values": "true" if options.chunk_data is ChunkData.VALUES else None,
        "includeMissing": "true" if options.include_missing else None,
        "from": options.start,
        "to": options.end,
        "branch": version.branch,
        "tag": version.tag,
        "snapshot": version.snapshot,
        "asOf": None if micros is None else format_micros(micros) + "Z",
        "decodeCf": None if options.decode_cf else "false",
        "authorize": options.access.plain or None,
        "secretAccess": options.access.secret or None,
        "secretStorage": options.secret_storage or None,
    }
    sizes = {"batchRows": str(options.batch_rows)}
    if options.table is None:
        sizes["partitionBytes"] = str(options.partition_bytes)
    return {
        "path": options.path,
        **({} if options.group == "/" else {"group": options.group}),
        **sizes,
        **{name: text for name, text in optional.items() if text is not None},
    }


def parse_as_of(text: str) -> int:
    """Microseconds of an ISO time, in UTC unless it has an offset."""
    instant = find_instant(text)
    if instant is None:
        raise InvalidInputError(f"asOf is {text!r}, expected an ISO time like 2024-03-01T06:00:00Z")
    return instant


def _version(given: Mapping[str, str]) -> Version:
    as_of = given.get("asof")
    return Version(
        branch=given.get("branch"),
        tag=given.get("tag"),
        snapshot=given.get("snapshot"),
        as_of_us=None if as_of is None else parse_as_of(as_of),
    )


def _chunk_data(given: Mapping[str, str]) -> ChunkData:
    encoded = not _boolean("decode", given.get("decode", "true"))
    values = _boolean("values", given.get("values", "false"))
    if encoded and values:
        raise InvalidInputError("options decode=false and values=true exclude each other")
    return ChunkData.ENCODED if encoded else ChunkData.VALUES if values else ChunkData.DECODED


def _mode(_: str, text: str) -> Mode:
    if text not in set(Mode):
        raise InvalidInputError(
            f"mode is {text!r}, expected {' or '.join(map(repr, map(str, Mode)))}"
        )
    return Mode(text)


def _text(_: str, text: str) -> str:
    return text


def _group(_: str, text: str) -> str:
    return "/" + text.strip("/")


def _names(option: str, text: str) -> tuple[str, ...]:
    if not text.lstrip().startswith("["):
        return tuple(name.strip() for name in text.split(",") if name.strip())
    try:
        names = json.loads(text)
    except ValueError as error:
        raise InvalidInputError(f"option {option!r} is not a JSON list: {error}") from error
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InvalidInputError(f"option {option!r} must be a list of names, not {text}")
    return tuple(names)


def _boolean(option: str, text: str) -> bool:
    if text.lower() not in {"true", "false"}:
        raise InvalidInputError(f"option {option!r} is {text!r}, expected true or false")
    return text.lower() == "true"


_MOST_DIGITS = 18  # of a number that fits 64 bits


def parse_positive(option: str, text: str) -> int:
    digits = text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS
    if not digits or int(text) == 0:
        raise InvalidInputError(f"option {option!r} is {text!r}, expected a positive number")
    return int(text)
