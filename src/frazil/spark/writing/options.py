"""Options of `df.write.format("icechunk")`, from text to values.

Spark lower-cases the names. An option that does not exist is an error, and so is one that would
have no effect: a misspelt `fill` would otherwise be found out when it is too late.
"""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from enum import StrEnum
from typing import Any
from uuid import UUID

from pyspark.sql.types import StructType

from frazil.engine.repository import Repository
from frazil.errors import InvalidInputError
from frazil.flatbuf.flexbuffers import Json
from frazil.spark.runtime.access import NO_ACCESS, AccessText
from frazil.spark.runtime.storage_options import (
    PlaceText,
    is_storage_option,
    place_of_options,
    require_shared,
)
from frazil.spark.table import opened
from frazil.spark.table.opened import RepositoryLike, place_of
from frazil.spark.table.options import read_option


class WriteMode(StrEnum):
    CREATE = "create"  # refuses a group that has arrays
    APPEND = "append"  # new coordinate values only; creates what is not there
    OVERWRITE = "overwrite"  # the arrays of the group are replaced
    REGION = "region"  # cells that are there only
    UPSERT = "upsert"  # region and append in one
    INSERT = "insert"  # new coordinate values, and cells that are empty


class Input(StrEnum):
    ROWS = "rows"
    CHUNKS = "chunks"


_MODE_NAMES = {**{str(mode): mode for mode in WriteMode}, "errorifexists": WriteMode.CREATE}

OPTIONS = {
    "path": "the repository, which must exist",
    "group": "path of the group in it, / by default; created when missing",
    "branch": "that gets the commit, main by default",
    "input": "rows (one per cell), or chunks (as `mode` chunks reads them)",
    "encode": "of chunk rows: false if `data` is as it is stored, encoded already",
    "mode": "create (or errorifexists), append, overwrite, region, upsert or insert",
    "dims": "columns that say where a row goes, by commas or as a JSON list",
    "chunks": "JSON object of dimension names: chunk length, -1 for all of it",
    "appendDim": "the dimension that grows, by default the first; * for any",
    "order": "JSON object of new dimensions: ascending or descending",
    "tolerance": "JSON object of dimensions: how far off a coordinate value a row may be",
    "unordered": "true: new coordinate values may break the order of a coordinate",
    "positions": "new dimensions without coordinate, written like `dims`",
    "dtypes": "JSON object of columns: dtype of a new array",
    "fill": "JSON object of columns: fill value of a new array, which NULL is stored as",
    "units": "JSON object of columns: CF units of a new array of times",
    "codecs": "JSON list of Zarr codecs for new arrays, or an object of such by column",
    "attrs": "JSON object of columns: attributes of a new array",
    "groupAttrs": "JSON object: attributes of the group, added to those there are",
    "arrays": "JSON object of arrays that chunk rows create: shape, chunks, dtype, dims, ...",
    "message": "of the commit",
    "metadata": "of the commit: JSON object",
    "txnAppId": "with txnVersion: a commit made with both is never made again",
    "txnVersion": "see txnAppId",
    "rebase": "none, or rebase: what to do if the branch has moved and no chunk is in both",
    "authorize": "where virtual chunks may be read, if chunks of theirs are written in part",
    "secretAccess": "as `authorize`, with secrets",
    "secretStorage": "how the bucket of `path` is reached: see also storage.<name>",
    "checkpointLocation": "of a stream, for Spark",
    "queryName": "of a stream, for Spark",
}
_FOR_SPARK = ("checkpointLocation", "queryName")
ANY_DIM = "*"
WRITE = "frazilWrite"  # JSON of the Java side: see NativeWrite
TASKS = "frazilTasks"  # the same, of a write of task numbers
STAGE = "frazilStage"  # the job that rows are staged for, and nothing more


@dataclass(frozen=True, slots=True, kw_only=True)
class NewArrays:
    """Options of new arrays, by column where given."""

    chunks: Mapping[str, int] = field(default_factory=dict)  # by dimension
    order: Mapping[str, str] = field(default_factory=dict)  # by dimension
    positions: tuple[str, ...] = ()
    dtypes: Mapping[str, str] = field(default_factory=dict)
    fill: Mapping[str, Json] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    codecs: Any = None  # a list for all, or an object
    attrs: Mapping[str, Mapping[str, Json]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeWrite:
    """Facts of a write that the Java side tells, beside the options that people give."""

    job: str = ""  # names the states of a write of many rows
    most_rows: int = 0  # that the commit makes chunks of at once
    most_chunks: int = 0  # whose references the commit takes; tasks write the manifests of more
    in_place: bool = False  # of a table that is there: OVERWRITE keeps its arrays, without cells
    command: str | None = None  # UPDATE, DELETE or MERGE
    base: str | None = None  # the snapshot that the rows of a command were read from
    table: StructType | None = None  # columns of the table that a command changes
    packed: StructType | None = None  # columns of rows that come packed
    packed_rows: int = 0  # of these, in one value
    is_tasks: bool = False  # whether rows are numbers of tasks
    epoch: int | None = None  # of these, if they are of a stream
    round: int = 0  # of these: tasks may leave more to do


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    place: PlaceText
    group: str = "/"
    branch: str = "main"
    input: Input = Input.ROWS
    encode: bool = True
    mode: WriteMode = WriteMode.APPEND
    dims: tuple[str, ...] | None = None
    append_dim: str | None = None
    unordered: bool = False
    tolerance: Mapping[str, float] = field(default_factory=dict)  # seconds for times
    new: NewArrays = field(default_factory=NewArrays)
    group_attrs: Mapping[str, Json] = field(default_factory=dict)
    arrays: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    message: str | None = None
    metadata: Mapping[str, Json] = field(default_factory=dict)
    txn: tuple[str, str] | None = None
    rebases: bool = False
    access: AccessText = NO_ACCESS
    native: NativeWrite | None = None
    stage: str | None = None  # the job of `frazil.spark.write` that takes the rows

    @property
    def any_dim(self) -> bool:
        """True if every dimension may grow."""
        return self.append_dim == ANY_DIM

    @property
    def key(self) -> str | None:
        """Key that makes the commit idempotent."""
        return None if self.txn is None else f"txn:{self.txn[0]}:{self.txn[1]}"


def parse_write_options(options: Mapping[str, str], *, overwrite: bool = False) -> WriteOptions:
    """Parses the options that Spark passes; `overwrite` is its save mode."""
    given = {name.lower(): text for name, text in options.items()}
    native = _native(given.pop(WRITE.lower(), None), given.pop(TASKS.lower(), None))
    job = given.pop(STAGE.lower(), None)
    _require_known(given)
    if not given.get("path"):
        raise InvalidInputError("option 'path' is missing: the repository to write to")
    new = {
        name: read_option(_READERS[name], name, given[name.lower()])
        for name in ("chunks", "order", "positions", "dtypes", "fill", "units", "codecs", "attrs")
        if name.lower() in given
    }
    plain = {
        attribute: read_option(_READERS[name], name, given[name.lower()])
        for name, attribute in _ATTRIBUTES.items()
        if name.lower() in given
    }
    parsed = WriteOptions(
        mode=_mode(given.get("mode"), overwrite=overwrite),
        new=NewArrays(**new),
        txn=_txn(given),
        place=place_of_options(options),
        access=AccessText(given.get("authorize", ""), given.get("secretaccess", "")),
        native=native,
        stage=job,
        **plain,
    )
    return parsed if native is None else _of_table(parsed, native, has_mode="mode" in given)


def clearing(options: WriteOptions) -> WriteOptions:
    """Options of a DELETE that needs no rows."""
    return _of_table(options, NativeWrite(command="DELETE"), has_mode=False)


def _native(write: str | None, tasks: str | None) -> NativeWrite | None:
    if write is None:
        return None
    told, of_tasks = _json(WRITE, write), {} if tasks is None else _json(TASKS, tasks)
    try:
        table, packed = told.get("table"), told.get("packed")
        return NativeWrite(
            job=str(UUID(told["job"])),
            most_rows=int(told["rows"]),
            most_chunks=int(told["chunks"]),
            in_place=told.get("inPlace") is True,
            command=told.get("command"),
            base=told.get("base"),
            table=None if table is None else StructType.fromJson(json.loads(table)),
            packed=None if packed is None else StructType.fromJson(json.loads(packed)),
            packed_rows=int(told.get("packedRows", 0)),
            is_tasks=tasks is not None,
            epoch=of_tasks.get("epoch"),
            round=int(of_tasks.get("round", 0)),
        )
    except (AttributeError, KeyError, TypeError, ValueError):
        raise InvalidInputError(
            f"option {WRITE!r} is not of a write; only Spark's side writes it"
        ) from None


def _of_table(options: WriteOptions, native: NativeWrite, *, has_mode: bool) -> WriteOptions:
    """Defaults of statements: any dimension may grow, and INSERT never overwrites."""
    if native.command is not None:
        grows = native.command == "MERGE"
        mode = WriteMode.UPSERT if grows else WriteMode.REGION
        growing = ANY_DIM if grows else None
        return replace(options, mode=mode, append_dim=growing, rebases=True, native=native)
    if not native.in_place:
        return options
    mode = WriteMode.INSERT if options.mode is WriteMode.APPEND and not has_mode else options.mode
    if mode is WriteMode.CREATE:
        raise InvalidInputError("the table is there: mode 'create' would refuse it")
    growing = None if mode is WriteMode.APPEND else ANY_DIM
    return replace(options, mode=mode, append_dim=options.append_dim or growing, rebases=True)


def _require_known(given: Mapping[str, str]) -> None:
    names = {name.lower(): name for name in OPTIONS}
    for unknown in sorted(given.keys() - names.keys()):
        if is_storage_option(unknown):
            continue
        close = get_close_matches(unknown, names, n=1)
        hint = f" (did you mean {names[close[0]]!r}?)" if close else ""
        shown = ", ".join(name for name in OPTIONS if name not in _FOR_SPARK)
        raise InvalidInputError(f"unknown option {unknown!r}{hint}; the options are {shown}")


def parse_mode(text: str) -> WriteMode:
    mode = _MODE_NAMES.get(str(text).lower())
    if mode is None:
        raise InvalidInputError(f"mode is {text!r}, expected {', '.join(map(repr, _MODE_NAMES))}")
    return mode


def _mode(text: str | None, *, overwrite: bool) -> WriteMode:
    if text is None:
        return WriteMode.OVERWRITE if overwrite else WriteMode.APPEND
    mode = parse_mode(text)
    if overwrite and mode is not WriteMode.OVERWRITE:
        raise InvalidInputError(
            f"Spark's save mode is overwrite, the option 'mode' says {text!r}:"
            " give .mode('append') with it"
        )
    return mode


def _txn(given: Mapping[str, str]) -> tuple[str, str] | None:
    app, version = given.get("txnappid"), given.get("txnversion")
    if (app is None) != (version is None):
        raise InvalidInputError("options txnAppId and txnVersion go together")
    return None if app is None or version is None else (app, version)


def _text(_: str, text: str) -> str:
    return text


def _group(_: str, text: str) -> str:
    return "/" + text.strip("/")


def _boolean(option: str, text: str) -> bool:
    if text.lower() not in {"true", "false"}:
        raise InvalidInputError(f"option {option!r} is {text!r}, expected true or false")
    return text.lower() == "true"


def _rebases(option: str, text: str) -> bool:
    if text.lower() not in {"none", "rebase"}:
        raise InvalidInputError(f"option {option!r} is {text!r}, expected 'none' or 'rebase'")
    return text.lower() == "rebase"


def _input(option: str, text: str) -> Input:
    try:
        return Input(text.lower())
    except ValueError:
        raise InvalidInputError(
            f"option {option!r} is {text!r}, expected 'rows' or 'chunks'"
        ) from None


def _names(option: str, text: str) -> tuple[str, ...]:
    if not text.lstrip().startswith("["):
        return tuple(name.strip() for name in text.split(",") if name.strip())
    names = _json(option, text)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InvalidInputError(f"option {option!r} must be a list of names, not {text}")
    return tuple(names)


def _json(option: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise InvalidInputError(f"option {option!r} is not JSON: {error}") from error


def _object_of(*kinds: type) -> Callable[[str, str], dict[str, Any]]:
    """A JSON object whose values are of these kinds; of any, for none."""

    def read(option: str, text: str) -> dict[str, Any]:
        value = _json(option, text)
        if not isinstance(value, dict) or (
            kinds
            and not all(isinstance(v, kinds) and not isinstance(v, bool) for v in value.values())
        ):
            named = [kind for kind in kinds if kind is not int or float not in kinds]
            names = " or ".join(_JSON_NAMES[kind] for kind in named)
            raise InvalidInputError(
                f"option {option!r} is {text}, expected a JSON object"
                + (f" of {names}s" if kinds else "")
            )
        return value

    return read


def _codecs(option: str, text: str) -> Any:
    value = _json(option, text)
    lists = value.values() if isinstance(value, dict) else [value]
    for one in lists:
        if not isinstance(one, list) or not all(isinstance(codec, dict) for codec in one):
            raise InvalidInputError(
                f"option {option!r} is {text}, expected a JSON list of codecs, or an object of such"
            )
    return value


_JSON_NAMES = {int: "integer", float: "number", str: "text", dict: "object"}
_READERS: dict[str, Callable[[str, str], Any]] = {
    "group": _group,
    "branch": _text,
    "input": _input,
    "encode": _boolean,
    "dims": _names,
    "chunks": _object_of(int),
    "appendDim": _text,
    "order": _object_of(str),
    "unordered": _boolean,
    "tolerance": _object_of(int, float),
    "positions": _names,
    "dtypes": _object_of(str),
    "fill": _object_of(),
    "units": _object_of(str),
    "codecs": _codecs,
    "attrs": _object_of(dict),
    "groupAttrs": _object_of(),
    "arrays": _object_of(dict),
    "message": _text,
    "metadata": _object_of(),
    "rebase": _rebases,
}
_ATTRIBUTES = {
    "group": "group",
    "branch": "branch",
    "input": "input",
    "encode": "encode",
    "dims": "dims",
    "appendDim": "append_dim",
    "unordered": "unordered",
    "tolerance": "tolerance",
    "groupAttrs": "group_attrs",
    "arrays": "arrays",
    "message": "message",
    "metadata": "metadata",
    "rebase": "rebases",
}


# The repository that is written to.


def open_repository(options: WriteOptions) -> Repository:
    """Raises RepositoryNotFoundError if there is none."""
    return opened.open_repository(options.place, options.access)


def open_engine(repo: RepositoryLike, storage: Mapping[str, object] | None) -> Repository:
    """Opens an engine repository from an open one or a location. Executors must see it, too."""
    if isinstance(repo, str | os.PathLike) or storage:
        return opened.open_repository(place_of(repo, storage), NO_ACCESS)
    engine = repo if isinstance(repo, Repository) else repo.engine
    require_shared(engine.raw_store)
    return engine
