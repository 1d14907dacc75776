"""SQL over the repository that is looked at, by an embedded Spark if that is installed.

Spark is started by the first query and stopped with the server. Queries run one after the other in
a thread of their own, so that everything else is answered meanwhile. They only read
(spark/io/read_only.py), and have limits of rows, of bytes and of time.
"""

import asyncio
import queue
import re
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from frazil.errors import IcechunkError, InvalidInputError, SessionStateError
from frazil.ids import SnapshotId
from frazil.lazy import lazy_module
from frazil.paths import NodePath
from frazil.web.explored import Explored

if TYPE_CHECKING:
    from frazil.spark import spark_session
    from frazil.spark.io import read_only, sql
    from frazil.spark.runtime import workers
else:  # of the extra `spark`, which the rest of the explorer does without
    spark_session = lazy_module("frazil.spark.spark_session")
    read_only = lazy_module("frazil.spark.io.read_only")
    sql = lazy_module("frazil.spark.io.sql")
    workers = lazy_module("frazil.spark.runtime.workers")

TABLE = "repo"  # name of the repository in SQL, as on the command line
INSTALL = "pip install 'frazil[spark]'"
MAX_ROWS = 10_000
MAX_CELLS = 200_000
MAX_BYTES = 8 * 2**20  # of the texts of all cells
MAX_QUERY = 10_000  # letters
MAX_SECONDS = 300
_LONGEST_CELL, _LONGEST_PLAN = 2_000, 100_000  # letters; the latter of EXPLAIN
_MAX_TABLES, _MAX_COLUMNS = 200, 200  # that are listed
_CANCEL_AGAIN_S = 0.2
_STOP_S = 10  # for a query to end before its server does
_PLAN = re.compile(r"(; line \d+ pos \d+);\n.*", re.DOTALL)  # Spark's plan, after the message
_NO_FUNCTION = "MISSING_CATALOG_ABILITY"


def has_spark() -> bool:
    return find_spec("pyspark") is not None


def table_facts(explored: Explored, snapshot: SnapshotId) -> dict[str, object]:
    """Tables of a version with their columns, and the limits; or how to install what is missing."""
    limits = {"rows": MAX_ROWS, "seconds": MAX_SECONDS, "letters": MAX_QUERY}
    if not has_spark():
        return {"available": False, "install": INSTALL, "limits": limits, "tables": []}
    tables = explored.recall(("tables", snapshot), lambda: _tables(explored, snapshot))
    listed = [
        {"name": name, "path": path, "columns": columns}
        for name, path in tables.items()
        if (columns := _columns(explored, snapshot, path))
    ]
    return {"available": True, "limits": limits, "tables": listed[:_MAX_TABLES]}


def _tables(explored: Explored, snapshot: SnapshotId) -> dict[str, str]:
    return sql.group_tables(explored.session(snapshot), {TABLE: "/", explored.name: "/"})


def _columns(explored: Explored, snapshot: SnapshotId, group: str) -> list[str]:
    """Dimensions, then arrays. Not read by Spark: which of them fit together, it says itself."""
    session, path = explored.session(snapshot), NodePath(group)
    nodes = (session.find_node(path.child(each)) for each in session.child_names(path))
    arrays = {node.path.name: node.array for node in nodes if node is not None and node.array}
    dimensions = [each for array in arrays.values() for each in array.dimension_names or () if each]
    return list(dict.fromkeys([*dimensions, *arrays]))[:_MAX_COLUMNS] if arrays else []


@dataclass(frozen=True, slots=True)
class Query:
    explored: Explored
    snapshot: SnapshotId
    text: str
    tag: str = field(default_factory=lambda: f"frazil-explorer-{uuid4().hex}")
    answer: Future[dict[str, object]] = field(default_factory=Future)
    cancelled: threading.Event = field(default_factory=threading.Event)

    def require_wanted(self) -> None:
        if self.cancelled.is_set():
            raise SessionStateError("the query was cancelled", kind="cancelled")


class SparkQueries:
    """Runs queries one after the other. Safe to use from several threads."""

    def __init__(self, max_seconds: float = MAX_SECONDS) -> None:
        self._max_seconds = max_seconds
        self._waiting: queue.Queue[Query | None] = queue.Queue()
        self._thread: threading.Thread | None = None
        self._guard = threading.Lock()
        self._spark: Any = None
        self._is_own = False  # started here, and not by the program that serves

    async def run(self, query: Query, gone: "asyncio.Future[Any]") -> dict[str, object]:
        """The result as JSON has it, or the `problem`: mistakes in queries are nothing unusual.

        Cancelled if `gone` ends before, and after MAX_SECONDS.
        """
        self._submit(query)
        ended = asyncio.wrap_future(query.answer)
        try:
            await asyncio.wait(
                {ended, gone}, timeout=self._max_seconds, return_when=asyncio.FIRST_COMPLETED
            )
            if not ended.done():
                text = (
                    f"the query was stopped after {self._max_seconds:g} seconds, the most that is"
                    " allowed here: read less, or use `frazil sql`"
                )
                return {"problem": text, "kind": "timeout"}
            error = query.answer.exception()
            return ended.result() if error is None else _problem(error)
        finally:
            if ended.cancel():
                self.cancel(query)

    def cancel(self, query: Query) -> None:
        """Returns at once. Jobs of Spark end soon; what is no job, such as planning, goes on."""
        query.cancelled.set()
        threading.Thread(target=self._cancel_jobs, args=(query,), daemon=True).start()

    def _cancel_jobs(self, query: Query) -> None:
        # Again and again: the next job may begin after this one was cancelled.
        while not query.answer.done():
            if self._spark is not None:
                self._spark.sparkContext.cancelJobsWithTag(query.tag)
            time.sleep(_CANCEL_AGAIN_S)

    def close(self) -> None:
        """Ends Spark, if it was started here. Later queries would start it again."""
        with self._guard:
            thread, self._thread = self._thread, None
        if thread is None:
            return
        self._waiting.put(None)
        thread.join(_STOP_S)

    def _submit(self, query: Query) -> None:
        with self._guard:
            self._waiting.put(query)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._work, name="frazil-queries", daemon=True
                )
                self._thread.start()

    def _work(self) -> None:
        while (query := self._waiting.get()) is not None:
            if not query.answer.set_running_or_notify_cancel():
                continue
            try:
                query.answer.set_result(self._answer(query))
            except Exception as error:  # noqa: BLE001 -- told to the one who asked
                query.answer.set_exception(_told(error, query, self._spark))
        if self._is_own and self._spark is not None:
            self._spark.stop()
        self._spark = None

    def _start(self) -> Any:
        if self._spark is None:
            self._is_own = not spark_session.is_running()
            self._spark = spark_session.session(app_name="frazil serve", short_lived=True)
        return self._spark

    def _answer(self, query: Query) -> dict[str, object]:
        spark, begun = self._start(), time.monotonic()
        query.require_wanted()
        spark.sparkContext.addJobTag(query.tag)
        try:
            own = read_only.read_only_session(spark)
            frame = read_only.read_only_sql(own, query.text, _specs(query))
            longest = _LONGEST_PLAN if frame.columns == ["plan"] else _LONGEST_CELL
            most = max(1, min(MAX_ROWS, MAX_CELLS // max(1, len(frame.columns))))
            query.require_wanted()
            with workers.errors_carried():
                rows = sql.cells_as_text(frame, longest + 1).limit(most + 1).collect()
            return _result(frame.dtypes, rows, most, longest) | {
                "seconds": round(time.monotonic() - begun, 3)
            }
        finally:
            spark.sparkContext.removeJobTag(query.tag)


def _specs(query: Query) -> dict[str, Mapping[str, object]]:
    tables = _tables(query.explored, query.snapshot)
    spec = {"path": query.explored.repository, "snapshot": str(query.snapshot)}
    return {name: {**spec, "group": group} for name, group in tables.items()}


def _result(
    kinds: list[tuple[str, str]], rows: list[Any], most: int, longest: int
) -> dict[str, object]:
    shown, size = list[list[str | None]](), 0
    for row in rows[:most]:
        cells = [
            _text(sql.shortest_digits(value, kind), longest)
            for value, (_, kind) in zip(row, kinds, strict=True)
        ]
        size += sum(len(each.encode()) for each in cells if each is not None)
        if size > MAX_BYTES and shown:
            break
        shown.append(cells)
    columns = [
        {"name": name, "type": kind, "is_number": kind.partition("(")[0] in sql.NUMBERS}
        for name, kind in kinds
    ]
    return {"columns": columns, "rows": shown, "more": len(shown) < len(rows)}


def _text(value: object, longest: int) -> str | None:
    match value:
        case None:
            return None
        case bool():
            return str(value).lower()
        case _:
            text = str(value)
            return text if len(text) <= longest else f"{text[:longest]}…"


def _problem(error: BaseException) -> dict[str, object]:
    kind = error.kind if isinstance(error, IcechunkError) else type(error).__name__
    return {"problem": str(error)[:_LONGEST_CELL], "kind": kind}


def _told(error: Exception, query: Query, spark: Any) -> IcechunkError:
    """The error as a user needs it: without Spark's plans, and without what cancelling caused."""
    if query.cancelled.is_set():
        return SessionStateError("the query was cancelled", kind="cancelled")
    if isinstance(error, IcechunkError):
        return error
    if spark is not None and spark_session.has_ended(spark, error):
        return SessionStateError("Spark has ended: start `frazil serve` again", kind="no-spark")
    text = _PLAN.sub(r"\1", str(error)).partition("\n\tat ")[0].strip()
    if "OutOfMemoryError" in text:
        text = "Spark has not enough memory for this query: read less"
    if text.startswith(f"[{_NO_FUNCTION}"):
        place = re.search(r"; line \d+ pos \d+", text)
        text = "a function of this query does not exist, or is not allowed here" + (
            place[0] if place else ""
        )
    return InvalidInputError(text.partition("\n\nJVM stacktrace:")[0] or repr(error), kind="sql")
