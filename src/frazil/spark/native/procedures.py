"""Procedures of a catalog: `CALL frazil.system.ancestors_of(table => 'weather')`.

Those that Iceberg has too bear its names. Here are those that only read, and the list of all; those
that change something are in changing.py, and those that run Spark jobs in
spark/actions/cluster_procedures.py, which a process with a session of its own runs.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import chain
from typing import Any

import pyarrow as pa

from frazil.engine.refs.version import Exactly
from frazil.errors import InvalidInputError
from frazil.ids import SnapshotId
from frazil.maintenance.executor import ThreadExecutor, quiet_files
from frazil.maintenance.stats import plan_stats, storage_stats
from frazil.maintenance.verify.verify_store import verify
from frazil.paths import NodePath
from frazil.spark.native import changing
from frazil.spark.native.changing import MOST_ROWS, Arguments, Rows
from frazil.spark.native.names import Asked, Found, NoSuchNameError, Settings, find_named
from frazil.spark.table.metadata_tables import TABLES, TableContext, TableRequest
from frazil.spark.table.options import DEFAULT_BATCH_ROWS, DEFAULT_PARTITION_BYTES


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
    run: Callable[[Found, Arguments], Rows] | None  # None for those that run Spark jobs


def describe_procedures() -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "about": each.about,
            "columns": each.columns,
            "cluster": each.run is None,
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
    if procedure.run is None:
        raise InvalidInputError(f"{name} runs Spark jobs, for which this process has no session")
    rows: list[list[Any]] = []
    for row in procedure.run(_find(settings, arguments), arguments):
        if len(rows) == MOST_ROWS:
            raise InvalidInputError(
                f"{name} has more than {MOST_ROWS} rows: read the metadata table of that name,"
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


_TABLE = Parameter("table", "STRING", "a table of the catalog; any of the repository will do")
_VERSION = Parameter("version", "STRING", "a branch, a tag or a snapshot", "NULL")
_DRY_RUN = Parameter("dry_run", "BOOLEAN", "true: only shows what would change", "FALSE")
_MESSAGE = Parameter("message", "STRING", "of the commit", "NULL")
_BRANCH = Parameter("branch", "STRING", "the name of a branch")
_TAG = Parameter("tag", "STRING", "the name of a tag")
_KEY = Parameter("idempotency_key", "STRING", "a commit with the same is not repeated", "NULL")
_SNAPSHOT = Parameter("snapshot_id", "STRING", "of a snapshot")
_OLDER_THAN = Parameter("older_than", "TIMESTAMP", "younger ones stay", "NULL")


def _of_table(table: str, *parameters: Parameter) -> Procedure:
    wanted = TABLES[table]
    return Procedure(wanted.about, (_TABLE, *parameters), wanted.ddl, _read_table(table))


def _changes(
    about: str,
    parameters: tuple[Parameter, ...],
    columns: str,
    run: Callable[[Found, Arguments], Rows],
    *more: Parameter,
) -> Procedure:
    """A procedure that changes something; `more` parameters come after `dry_run`."""
    return Procedure(about, (_TABLE, *parameters, _DRY_RUN, *more), columns, run)


def _on_cluster(about: str, parameters: tuple[Parameter, ...], columns: str) -> Procedure:
    """A procedure that runs Spark jobs."""
    return Procedure(about, (_TABLE, *parameters, _MESSAGE, _KEY, _DRY_RUN), columns, None)


_LENGTHS = "MAP<STRING, INT>"
_MOVED = "previous_snapshot_id STRING, current_snapshot_id STRING"
_EDITED = f"{_MOVED}, changed_nodes BIGINT, conflicts ARRAY<STRING>"
_PACKED = (
    f"chunks BIGINT, packs BIGINT, size_bytes BIGINT, references BIGINT, manifests BIGINT, {_MOVED}"
)

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
    "create_branch": _changes(
        "makes a branch, of the version or the newest snapshot",
        (_BRANCH, _VERSION),
        "branch STRING, snapshot_id STRING",
        changing.create_branch,
    ),
    "delete_branch": _changes(
        "deletes a branch; its snapshots stay until garbage is collected",
        (_BRANCH,),
        "branch STRING, snapshot_id STRING",
        changing.delete_branch,
    ),
    "reset_branch": _changes(
        "moves a branch to any version",
        (_BRANCH, Parameter("version", "STRING", "a branch, a tag or a snapshot")),
        f"branch STRING, {_MOVED}",
        changing.reset_branch,
    ),
    "create_tag": _changes(
        "makes a tag, of the version or the newest snapshot",
        (_TAG, _VERSION),
        "tag STRING, snapshot_id STRING",
        changing.create_tag,
    ),
    "delete_tag": _changes(
        "deletes a tag; its name can never be used again",
        (_TAG,),
        "tag STRING, snapshot_id STRING",
        changing.delete_tag,
    ),
    "rollback_to_snapshot": _changes(
        "moves the branch back to a snapshot of its history",
        (_SNAPSHOT,),
        _MOVED,
        changing.rollback_to_snapshot,
    ),
    "rollback_to_timestamp": _changes(
        "moves the branch back to where it was at a time",
        (Parameter("timestamp", "TIMESTAMP", "a time"),),
        _MOVED,
        changing.rollback_to_timestamp,
    ),
    "set_current_snapshot": _changes(
        "moves the branch to any snapshot, branch or tag",
        (
            Parameter("snapshot_id", "STRING", "of a snapshot", "NULL"),
            Parameter("ref", "STRING", "a branch or a tag, instead", "NULL"),
        ),
        _MOVED,
        changing.set_current_snapshot,
    ),
    "fast_forward": _changes(
        "moves a branch to a version that has all its commits",
        (_BRANCH, Parameter("to", "STRING", "a branch, a tag or a snapshot")),
        "branch_updated STRING, previous_ref STRING, updated_ref STRING",
        changing.fast_forward,
    ),
    "cherrypick_snapshot": _changes(
        "applies the changes of one commit to the branch",
        (_SNAPSHOT, _MESSAGE),
        f"source_snapshot_id STRING, {_EDITED}",
        changing.cherrypick_snapshot,
    ),
    "revert_snapshot": _changes(
        "undoes one commit of the branch, by another",
        (_SNAPSHOT, _MESSAGE),
        f"source_snapshot_id STRING, {_EDITED}",
        changing.revert_snapshot,
    ),
    "merge": _changes(
        "applies the changes of a branch to that of the table",
        (Parameter("source", "STRING", "the branch that is merged"), _MESSAGE),
        f"source STRING, {_EDITED}, fast_forward BOOLEAN",
        changing.merge,
    ),
    "expire_snapshots": _changes(
        "removes snapshots from the history; without arguments those older than five days",
        (
            _OLDER_THAN,
            Parameter("retain_last", "INT", "so many of each branch stay", "NULL"),
            Parameter("snapshot_ids", "ARRAY<STRING>", "only these", "NULL"),
        ),
        "snapshot_id STRING, written_at TIMESTAMP, message STRING",
        changing.expire_snapshots,
    ),
    "remove_orphan_files": _changes(
        "deletes files that are reachable from no branch or tag, and older than three days",
        (_OLDER_THAN,),
        "kind STRING, id STRING, size_bytes BIGINT",
        changing.remove_orphan_files,
        Parameter("safety_hours", "INT", "a time that is less long ago is refused", "24"),
    ),
    "rewrite_manifests": _changes(
        "rewrites the manifests of the branch, split as the configuration says now",
        (_MESSAGE,),
        "rewritten_manifests_count BIGINT, added_manifests_count BIGINT, references BIGINT,"
        f" {_MOVED}",
        changing.rewrite,
    ),
    "pack": _changes(
        "packs small chunks of the table into larger objects",
        (
            Parameter("small_bytes", "BIGINT", "chunks of at most this size", "NULL"),
            Parameter("pack_bytes", "BIGINT", "about the size of a pack", "NULL"),
            _MESSAGE,
        ),
        _PACKED,
        changing.pack_chunks,
    ),
    "unpack": _changes(
        "gives every packed chunk of the table an object of its own",
        (_MESSAGE,),
        _PACKED,
        changing.unpack_chunks,
    ),
    "migrate": _changes(
        "migrates the repository to a newer version of the format, in place",
        (Parameter("to_version", "INT", "1 or 2", "2"),),
        "from_generation STRING, to_version INT, snapshots BIGINT, manifests BIGINT,"
        " copied BIGINT, size_bytes BIGINT",
        changing.migrate,
    ),
    "ingest": _on_cluster(
        "writes files (NetCDF, HDF5, Zarr, GRIB, TIFF, Parquet) to the table, as one commit",
        (
            Parameter("sources", "ARRAY<STRING>", "paths, patterns, folders, URLs"),
            Parameter("concat_dim", "STRING", "dimensions, separated by commas", "NULL"),
            Parameter("mode", "STRING", "create, append or region", "NULL"),
            Parameter("chunks", _LENGTHS, "length by dimension, -1 for all of it", "NULL"),
            Parameter("virtual", "BOOLEAN", "true: refers to the chunks of the files", "NULL"),
            Parameter("variables", "ARRAY<STRING>", "by default all", "NULL"),
            Parameter("format", "STRING", "of the files, if their names do not tell", "NULL"),
            Parameter("combine", "STRING", "concat or coords", "NULL"),
            Parameter("on_error", "STRING", "fail, or skip a file that cannot be read", "NULL"),
            Parameter("source_group", "STRING", "the group in each file", "NULL"),
        ),
        f"files BIGINT, skipped BIGINT, chunks BIGINT, virtual_chunks BIGINT, size_bytes BIGINT,"
        f" {_MOVED}",
    ),
    "rechunk": _on_cluster(
        "rewrites arrays of the table with other chunks, codecs or shards, as one commit",
        (
            Parameter("chunks", _LENGTHS, "length by dimension, -1 for all of it", "NULL"),
            Parameter("shards", _LENGTHS, "likewise; an empty map for no shards", "NULL"),
            Parameter("codecs", "ARRAY<STRING>", "names, or JSON objects", "NULL"),
            Parameter("into", "STRING", "a path that does not exist, for the result", "NULL"),
        ),
        f"arrays BIGINT, chunks BIGINT, size_bytes BIGINT, {_MOVED}",
    ),
    "confirm_migration": _changes(
        "removes the files of the old repository that a migration has kept",
        (),
        "generation STRING, files BIGINT, size_bytes BIGINT",
        changing.confirm_migration,
    ),
}
