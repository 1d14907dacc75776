"""Procedures of a catalog: `CALL frazil.system.ancestors_of(table => 'weather')`.

They only read. Those that Iceberg has too bear its names; of these, `expire_snapshots` and
`remove_orphan_files` take `dry_run => true` and nothing else so far.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import chain
from typing import Any

import pyarrow as pa

from frazil.engine.refs.version import Exactly
from frazil.errors import InvalidInputError
from frazil.ids import SnapshotId, format_ids
from frazil.maintenance.executor import ThreadExecutor, quiet_files
from frazil.maintenance.expire import ExpireRequest, plan_expire
from frazil.maintenance.gc import GCRequest, plan_gc
from frazil.maintenance.stats import plan_stats, storage_stats
from frazil.maintenance.verify.verify_store import verify
from frazil.paths import NodePath
from frazil.spark.native.names import Asked, Found, NoSuchNameError, Settings, find_named
from frazil.spark.table.metadata_tables import TABLES, TableContext, TableRequest
from frazil.spark.table.options import DEFAULT_BATCH_ROWS, DEFAULT_PARTITION_BYTES

_MOST_ROWS = 100_000  # all of them are in the driver
_DAY_US = 86_400_000_000

type Arguments = Mapping[str, Any]
type Rows = Iterable[list[Any]]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter with a type of SQL; with a default, it may be left out."""

    name: str
    type: str
    about: str
    default: str | None = None


@dataclass(frozen=True, slots=True)
class Procedure:
    about: str
    parameters: tuple[Parameter, ...]
    columns: str
    run: Callable[[Found, Arguments], Rows]


def describe_procedures() -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "about": each.about,
            "columns": each.columns,
            "parameters": [
                {"name": p.name, "type": p.type, "about": p.about, "default": p.default}
                for p in each.parameters
            ],
        }
        for name, each in PROCEDURES.items()
    ]


def call_procedure(settings: Settings, name: str, arguments: Arguments) -> list[list[Any]]:
    """Rows of a procedure, with values for JSON: times are microseconds since 1970."""
    procedure = PROCEDURES.get(name)
    if procedure is None:
        close = get_close_matches(name, PROCEDURES, n=1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        raise InvalidInputError(
            f"no procedure {name!r}{hint}; the procedures are {', '.join(PROCEDURES)}"
        )
    rows: list[list[Any]] = []
    for row in procedure.run(_find(settings, arguments), arguments):
        if len(rows) == _MOST_ROWS:
            raise InvalidInputError(
                f"{name} has more than {_MOST_ROWS} rows: read the metadata table of that name,"
                " or use the function of frazil.spark"
            )
        rows.append(row)
    return rows


def _find(settings: Settings, arguments: Arguments) -> Found:
    """The table that the argument `table` names, with or without the name of the catalog."""
    text, version = arguments.get("table"), arguments.get("version")
    if not text:
        raise InvalidInputError("the argument 'table' is missing: a table of the catalog")
    parts, asked = split_name(str(text)), Asked(version)
    try:
        return find_named(settings, parts, asked)
    except NoSuchNameError as error:
        if len(parts) > 1 and parts[0] == settings.name:
            return find_named(settings, parts[1:], asked)
        raise InvalidInputError(f"no table {text!r}: {error}") from None


def split_name(text: str) -> list[str]:
    """Splits at points that are not in backticks; a location may do without those."""
    if "`" not in text and "/" in text:
        return [text]
    parts, position = list[str](), 0
    while found := _PART.match(text, position):
        parts.append(found[2] if found[1] is None else found[1].replace("``", "`"))
        position = found.end() + 1
        if found.end() == len(text):
            return parts
        if text[found.end()] != ".":
            break
    raise InvalidInputError(f"{text!r} is not a name: parts are joined by points")


_PART = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")


# What they do


def _read_table(table: str) -> Callable[[Found, Arguments], Rows]:
    return lambda found, arguments: _table_rows(table, found, arguments)


def _table_rows(table: str, found: Found, arguments: Arguments) -> Rows:
    named, wanted = found.named, TABLES[table]
    path = NodePath(named.path)
    of_array = named.is_array and "variables" in wanted.takes
    request = TableRequest(
        group=str(path.parent) if of_array else str(path),
        variables=(path.name,) if of_array else None,
        start=arguments.get("from_version"),
        end=arguments.get("to_version"),
        partition_bytes=DEFAULT_PARTITION_BYTES,
        batch_rows=DEFAULT_BATCH_ROWS,
    )
    context = TableContext(found.lookup.repository, _snapshot(found), request)
    batches = (wanted.read(context, part) for part in wanted.plan(context))
    return chain.from_iterable(map(_plain_rows, chain.from_iterable(batches)))


def _plain_rows(batch: pa.RecordBatch) -> Iterator[list[Any]]:
    columns = [
        (each.cast(pa.int64()) if pa.types.is_timestamp(each.type) else each).to_pylist()
        for each in batch.columns
    ]
    return (list(row) for row in zip(*columns, strict=True))


def _snapshot(found: Found) -> SnapshotId:
    return found.session.snapshot_id


def _ancestors_of(found: Found, arguments: Arguments) -> Rows:
    repository, named = found.lookup.repository, arguments.get("snapshot_id")
    snapshot = SnapshotId.parse(str(named)) if named else _snapshot(found)
    for each in repository.ancestry(Exactly(snapshot)):
        yield [str(each.id), each.flushed_at_us, each.message]


def _lookup(found: Found, _: Arguments) -> Rows:
    version, record = found.named.version, found.lookup.repository.lookup_snapshot(_snapshot(found))
    kind = "tag" if version.tag else "snapshot" if version.snapshot else "branch"
    name = version.tag or version.snapshot or version.branch or "main"
    yield [kind, name, str(record.id), record.flushed_at_us, record.message]


def _stats(found: Found, _: Arguments) -> Rows:
    repository = found.lookup.repository
    executor = ThreadExecutor(repository.files)
    stats = storage_stats(repository, plan_stats(repository, executor), executor)
    for each in [*stats.refs, *stats.arrays]:
        total, own = each.total, each.exclusive
        yield [
            each.kind, each.name, total.native_bytes, total.virtual_bytes, total.inlined_bytes,
            own.native_bytes, own.virtual_bytes, own.inlined_bytes,
        ]  # fmt: skip


def _verify(found: Found, _: Arguments) -> Rows:
    repository = found.lookup.repository
    report = verify(repository.raw_store, ThreadExecutor(quiet_files(repository)))
    for each in report.problems:
        chunk = None if each.place.chunk is None else list(each.place.chunk)
        yield [
            str(each.severity), each.kind, each.place.file, each.place.node, chunk, each.text,
            each.count, each.repairable,
        ]  # fmt: skip


def _require_dry_run(arguments: Arguments, instead: str) -> None:
    if arguments.get("dry_run") is not True:
        raise InvalidInputError(
            f"the catalog changes nothing yet: say dry_run => true to see what would go,"
            f" or use {instead}"
        )


def _expire_snapshots(found: Found, arguments: Arguments) -> Rows:
    _require_dry_run(arguments, "frazil.spark.expire_snapshots")
    repository, named = found.lookup.repository, arguments.get("snapshot_ids")
    request = ExpireRequest(
        older_than_us=arguments.get("older_than"),
        retain_last=arguments.get("retain_last") or 0,
        snapshots=frozenset(map(SnapshotId.parse, named)) if named else None,
    )
    for each in plan_expire(repository, request).snapshots:
        record = repository.lookup_snapshot(SnapshotId.parse(each))
        yield [each, record.flushed_at_us, record.message]


def _remove_orphan_files(found: Found, arguments: Arguments) -> Rows:
    _require_dry_run(arguments, "frazil.spark.garbage_collect")
    repository, older_than = found.lookup.repository, arguments.get("older_than")
    cutoff = repository.clock() - 3 * _DAY_US if older_than is None else older_than
    plan = plan_gc(repository, GCRequest(cutoff_us=cutoff), ThreadExecutor(quiet_files(repository)))
    for listing in plan.garbage.values():
        kind = listing.kind.value.rstrip("/")
        sizes = listing.size_bytes.tolist()
        for name, size in zip(format_ids(listing.ids), sizes, strict=True):
            yield [kind, name, size]


_TABLE = Parameter("table", "STRING", "a table of the catalog; any of the repository will do")
_VERSION = Parameter("version", "STRING", "a branch, a tag or a snapshot", "NULL")
_DRY_RUN = Parameter("dry_run", "BOOLEAN", "true: only shows what would go", "FALSE")
_OLDER_THAN = Parameter("older_than", "TIMESTAMP", "younger ones stay", "NULL")


def _of_table(table: str, *parameters: Parameter) -> Procedure:
    wanted = TABLES[table]
    return Procedure(wanted.about, (_TABLE, *parameters), wanted.ddl, _read_table(table))


PROCEDURES = {
    "ancestors_of": Procedure(
        "a snapshot and those before it, by default of the branch",
        (_TABLE, Parameter("snapshot_id", "STRING", "by default the newest", "NULL"), _VERSION),
        "snapshot_id STRING, written_at TIMESTAMP, message STRING",
        _ancestors_of,
    ),
    "snapshots": _of_table("snapshots"),
    "refs": _of_table("refs"),
    "nodes": _of_table("nodes", _VERSION),
    "storage": _of_table("storage", _VERSION),
    "diff": _of_table(
        "diff",
        Parameter("from_version", "STRING", "by default the one before the other", "NULL"),
        Parameter("to_version", "STRING", "by default the newest of the branch", "NULL"),
    ),
    "lookup": Procedure(
        "the snapshot that a version is, now",
        (_TABLE, _VERSION),
        "kind STRING, name STRING, snapshot_id STRING, written_at TIMESTAMP, message STRING",
        _lookup,
    ),
    "stats": Procedure(
        "bytes of each branch, tag and array: what it has, and has alone",
        (_TABLE,),
        "kind STRING, name STRING, native_bytes BIGINT, virtual_bytes BIGINT,"
        " inlined_bytes BIGINT, exclusive_native_bytes BIGINT, exclusive_virtual_bytes BIGINT,"
        " exclusive_inlined_bytes BIGINT",
        _stats,
    ),
    "verify": Procedure(
        "everything that is wrong with the files of the repository; no row if nothing is",
        (_TABLE,),
        "severity STRING, kind STRING, file STRING, node STRING, chunk ARRAY<BIGINT>, text STRING,"
        " count BIGINT, repairable BOOLEAN",
        _verify,
    ),
    "expire_snapshots": Procedure(
        "snapshots that would be removed from the history",
        (
            _TABLE,
            _OLDER_THAN,
            Parameter("retain_last", "INT", "so many of each branch stay", "NULL"),
            Parameter("snapshot_ids", "ARRAY<STRING>", "only these", "NULL"),
            _DRY_RUN,
        ),
        "snapshot_id STRING, written_at TIMESTAMP, message STRING",
        _expire_snapshots,
    ),
    "remove_orphan_files": Procedure(
        "files that are reachable from no branch or tag, and older than three days",
        (_TABLE, _OLDER_THAN, _DRY_RUN),
        "kind STRING, id STRING, size_bytes BIGINT",
        _remove_orphan_files,
    ),
}
