"""Procedures of a catalog that run Spark jobs: `CALL frazil.system.rechunk(...)`.

The JVM starts this module as a process (PythonDriver.java). It attaches to the session that the
statement runs in, as the driver of a Python application does, and calls the function of
`frazil.spark` of that name. The parameters are declared in native/procedures.py.
"""

import json
import os
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from frazil.errors import IcechunkError, InvalidInputError
from frazil.spark.ingestion.ingest import explain_ingest, ingest
from frazil.spark.native.changing import Arguments, is_dry_run
from frazil.spark.native.names import NoSuchNameError, Settings, parse_settings
from frazil.spark.native.procedures import split_name
from frazil.spark.native.targets import Target, find_target, find_there
from frazil.spark.pipelines.rechunk import explain_rechunk, rechunk

type Row = list[Any]


def call(spark: SparkSession, question: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to a question of PythonDriver.java: rows, or an error for the user."""
    try:
        match question:
            case {"name": str(name), "arguments": dict(arguments), "settings": dict(settings)}:
                pass
            case _:
                raise InvalidInputError("a call has a name, arguments and settings")
        find, run = _PROCEDURES[name]
        target = _find(find, parse_settings(str(question.get("as", "")), settings), arguments)
        return {"rows": [run(spark, target, arguments)]}
    except IcechunkError as error:
        return {"error": error.message}


def _find(find: Callable[..., Target], settings: Settings, arguments: Arguments) -> Target:
    """The table that is named, with or without the name of the catalog."""
    parts = split_name(str(arguments.get("table") or ""))
    try:
        return find(settings, parts)
    except NoSuchNameError:
        if len(parts) == 1 or parts[0] != settings.name:
            raise
        return find(settings, parts[1:])


def _ingest(spark: SparkSession, target: Target, given: Arguments) -> Row:
    before = str(target.repository.lookup_branch(target.branch))
    dims = given.get("concat_dim")
    options: dict[str, Any] = {
        "group": str(target.path),
        "branch": target.branch,
        "concat_dim": None if dims is None else [each.strip() for each in str(dims).split(",")],
        **_given(given, "mode", "chunks", "virtual", "variables", "format", "combine", "on_error"),
        **_given(given, "source_group"),
    }
    sources = given.get("sources")
    if not sources:
        raise InvalidInputError("the argument 'sources' is missing: an array of paths or patterns")
    if is_dry_run(given):
        plan = explain_ingest(spark, sources, target.repository, **options)
        return [
            plan.files, len(plan.skipped), plan.chunks, plan.virtual_chunks, plan.bytes, before,
            None,
        ]  # fmt: skip
    options |= _given(given, "message", "idempotency_key")
    done = ingest(spark, sources, target.repository, progress=False, **options)
    return [
        done.files, len(done.skipped), done.chunks, done.virtual_chunks, done.bytes, before,
        done.snapshot_id,
    ]  # fmt: skip


def _rechunk(spark: SparkSession, target: Target, given: Arguments) -> Row:
    options: dict[str, Any] = {
        "branch": target.branch,
        **_given(given, "chunks", "shards", "into"),
    }
    if given.get("codecs") is not None:
        options["codecs"] = [_parse_codec(each) for each in given["codecs"]]
    plan = explain_rechunk(spark, target.repository, str(target.path), **options)
    if is_dry_run(given):
        chunks = sum(one.chunks for one in plan.rewrites)
        return [len(plan.rewrites), chunks, plan.size_bytes, plan.snapshot, None]
    options |= _given(given, "message", "idempotency_key")
    done = rechunk(spark, target.repository, str(target.path), progress=False, **options)
    return [done.arrays, done.chunks, done.bytes, plan.snapshot, done.snapshot_id]


def _given(arguments: Arguments, *names: str) -> dict[str, Any]:
    return {name: arguments[name] for name in names if arguments.get(name) is not None}


def _parse_codec(text: object) -> Any:
    """A name, or a JSON object of the Zarr specification."""
    if not str(text).lstrip().startswith("{"):
        return text
    try:
        return json.loads(str(text))
    except ValueError as error:
        raise InvalidInputError(f"codec {text!r} is not JSON: {error}") from None


_PROCEDURES: dict[str, tuple[Callable[..., Target], Callable[..., Row]]] = {
    "ingest": (find_target, _ingest),
    "rechunk": (find_there, _rechunk),
}


# The process.


def attach(gateway: Any) -> SparkSession:
    """The session of the statement, whose JVM runs already; its jobs belong to the statement."""
    entry, jvm = gateway.entry_point, gateway.jvm
    java_session = entry.session()
    java_context = jvm.org.apache.spark.api.java.JavaSparkContext(java_session.sparkContext())
    conf = SparkConf(_jvm=jvm, _jconf=java_context.getConf())
    context = SparkContext(conf=conf, gateway=gateway, jsc=java_context)
    sessions = jvm.org.apache.spark.sql.classic.SparkSession
    default = sessions.getDefaultSession()
    spark = SparkSession(context, java_session)  # makes itself the default of the JVM
    if default.isDefined():
        sessions.setDefaultSession(default.get())
    for name, value in dict(entry.properties()).items():
        context.setLocalProperty(name, value)
    return spark


def _end_with_stdin() -> None:
    """The JVM holds the other end: if it is gone, no answer is wanted."""
    sys.stdin.buffer.read()
    os._exit(1)


def main() -> None:
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    gateway = launch_gateway()  # type: ignore[no-untyped-call]
    try:
        answer = call(attach(gateway), json.loads(gateway.entry_point.question()))
    except Exception as error:  # noqa: BLE001 -- the statement fails with it
        traceback.print_exc()
        answer = {"error": f"{type(error).__name__}: {error}"}
    gateway.entry_point.answer(json.dumps(answer))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # without stopping the Spark that others use


if __name__ == "__main__":
    main()
