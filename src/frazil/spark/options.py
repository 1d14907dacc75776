"""Options of `spark.read.format("icechunk")`, from text to values.

Spark lower-cases the names. An option that does not exist is an error: a misspelt `sel` would
otherwise read everything.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from frazil.errors import InvalidInputError
from frazil.spark.access import NO_ACCESS, AccessText
from frazil.spark.selection import EVERYTHING, Selection, format_selection, parse_selection
from frazil.spark.timetext import find_instants, format_micros

DEFAULT_PARTITION_BYTES = 32 * 2**20
DEFAULT_BATCH_ROWS = 65_536


@dataclass(frozen=True, slots=True)
class Version:
    """Which snapshot: of a branch (as it was at a time), a tag, or by its id."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """What to read. `columns` leaves out columns of the table that `variables` make."""

    path: str
    group: str = "/"
    variables: tuple[str, ...] | None = None
    columns: tuple[str, ...] | None = None
    selection: Selection = EVERYTHING
    version: Version = field(default_factory=Version)
    decode_cf: bool = True
    partition_bytes: int = DEFAULT_PARTITION_BYTES
    batch_rows: int = DEFAULT_BATCH_ROWS
    access: AccessText = NO_ACCESS
    secret_storage: str = field(default="", repr=False)


OPTIONS = {
    "path": "the repository",
    "group": "path of the group in it, / by default",
    "variables": "names, by commas or as a JSON list; by default all that are not coordinates",
    "columns": "columns to keep, written like `variables`; all by default",
    "sel": "JSON object of dimension names: a value, a list, or start and stop",
    "branch": "main by default",
    "tag": "instead of a branch",
    "snapshot": "id, instead of a branch",
    "asOf": "ISO time: the branch as it was then",
    "decodeCf": "true or false: whether attributes are used to decode times, scales and fills",
    "partitionBytes": f"size of a task, {DEFAULT_PARTITION_BYTES} by default",
    "batchRows": f"rows handed to Spark at once, {DEFAULT_BATCH_ROWS} by default",
    "authorize": "where virtual chunks may be read: JSON object of url prefixes to words",
    "secretStorage": "how the bucket of `path` is reached; only frazil.spark.read writes it",
    "secretAccess": "as `authorize`, with secrets; only frazil.spark.read writes it",
}


def parse_options(options: Mapping[str, str]) -> ReadOptions:
    """Of what Spark hands over. InvalidInputError names what is wrong and what there is."""
    given = {name.lower(): text for name, text in options.items()}
    names = {name.lower(): name for name in OPTIONS}
    for unknown in given.keys() - names.keys():
        close = get_close_matches(unknown, names, n=1)
        hint = f" (did you mean {names[close[0]]!r}?)" if close else ""
        raise InvalidInputError(
            f"unknown option {unknown!r}{hint}; the options are {', '.join(OPTIONS)}"
        )
    if not given.get("path"):
        raise InvalidInputError("option 'path' is missing: the repository to read")
    readers: dict[str, tuple[str, Callable[[str, str], Any]]] = {
        "group": ("group", _group),
        "variables": ("variables", _names),
        "columns": ("columns", _names),
        "sel": ("selection", lambda _, text: parse_selection(text)),
        "decodeCf": ("decode_cf", _boolean),
        "partitionBytes": ("partition_bytes", _positive),
        "batchRows": ("batch_rows", _positive),
    }
    parsed = {
        attribute: read(name, given[name.lower()])
        for name, (attribute, read) in readers.items()
        if name.lower() in given
    }
    access = AccessText(given.get("authorize", ""), given.get("secretaccess", ""))
    return ReadOptions(
        path=given["path"],
        version=_version(given),
        access=access,
        secret_storage=given.get("secretstorage", ""),
        **parsed,
    )


def format_options(options: ReadOptions) -> dict[str, str]:
    """Inverse of `parse_options`; says only what is not the default."""
    version = options.version
    micros = version.as_of_us
    optional = {
        "variables": None if options.variables is None else json.dumps(options.variables),
        "columns": None if options.columns is None else json.dumps(options.columns),
        "sel": format_selection(options.selection) if options.selection.constraints else None,
        "branch": version.branch,
        "tag": version.tag,
        "snapshot": version.snapshot,
        "asOf": None if micros is None else format_micros(micros) + "Z",
        "decodeCf": None if options.decode_cf else "false",
        "authorize": options.access.plain or None,
        "secretAccess": options.access.secret or None,
        "secretStorage": options.secret_storage or None,
    }
    return {
        "path": options.path,
        "group": options.group,
        "partitionBytes": str(options.partition_bytes),
        "batchRows": str(options.batch_rows),
        **{name: text for name, text in optional.items() if text is not None},
    }


def parse_as_of(text: str) -> int:
    """Microseconds of an ISO time, in UTC unless it says otherwise."""
    instants = find_instants(text, "UTC")
    if instants is None:
        raise InvalidInputError(f"asOf is {text!r}, expected an ISO time like 2024-03-01T06:00:00Z")
    return instants.latest


def _version(given: Mapping[str, str]) -> Version:
    as_of = given.get("asof")
    return Version(
        branch=given.get("branch"),
        tag=given.get("tag"),
        snapshot=given.get("snapshot"),
        as_of_us=None if as_of is None else parse_as_of(as_of),
    )


def _group(_: str, text: str) -> str:
    return "/" + text.strip("/")


def _names(option: str, text: str) -> tuple[str, ...]:
    if not text.lstrip().startswith("["):
        return tuple(name.strip() for name in text.split(",") if name.strip())
    try:
        names = json.loads(text)
    except ValueError as error:
        raise InvalidInputError(f"option {option!r} is not a JSON list: {error}") from error
    if not all(isinstance(name, str) for name in names):
        raise InvalidInputError(f"option {option!r} must be a list of names, not {text}")
    return tuple(names)


def _boolean(option: str, text: str) -> bool:
    if text.lower() not in {"true", "false"}:
        raise InvalidInputError(f"option {option!r} is {text!r}, expected true or false")
    return text.lower() == "true"


def _positive(option: str, text: str) -> int:
    if not text.isdigit() or int(text) == 0:
        raise InvalidInputError(f"option {option!r} is {text!r}, expected a positive number")
    return int(text)
