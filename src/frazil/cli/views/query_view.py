"""Queries over one repository: one after the other, in one Spark session."""

import csv
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from itertools import islice
from pathlib import PurePosixPath
from typing import Any, Self, assert_never

from frazil.cli.failure import describe
from frazil.cli.on_spark import spark_session
from frazil.cli.output import TABLE, OutputFormat, print_table
from frazil.cli.repositories import open_repository, parse_snapshot
from frazil.engine.repository import Repository
from frazil.spark.io.read import make_version, open_options
from frazil.spark.io.sql import (
    SqlPlan,
    current_catalog,
    group_tables,
    shortest_digits,
    times_as_text,
)
from frazil.spark.table.opened import Opened

# The rows of a query's result, as a table, as CSV or as JSON.

MAX_TABLE_ROWS = 1000  # the widths of columns are known only when all rows are


def print_rows(
    columns: Sequence[str], rows: Iterable[Sequence[object]], output: OutputFormat
) -> None:
    """CSV and JSON are printed as rows come, so a result may be larger than memory."""
    match output:
        case OutputFormat.TABLE:
            _print_table(columns, rows)
        case OutputFormat.CSV:
            writer = csv.writer(sys.stdout, lineterminator="\n")
            writer.writerow(columns)
            writer.writerows([_text(value) for value in row] for row in rows)
        case OutputFormat.JSON:
            _print_json(columns, rows)
        case _:
            assert_never(output)


def _print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    rows = iter(rows)
    shown = list(islice(rows, MAX_TABLE_ROWS))
    cells = [[_text(value) if value is not None else "NULL" for value in row] for row in shown]
    print_table(columns, cells)
    if not cells:
        print("no rows")
    elif next(rows, None) is not None:
        print(f"... and more than these {MAX_TABLE_ROWS} rows: --format csv or json shows all")


def _print_json(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    lead = "["
    for row in rows:
        record = dict(zip(columns, row, strict=True))
        print(f"{lead}\n  {json.dumps(record, ensure_ascii=False, default=_text)}", end="")
        lead = ","
    print("\n]" if lead == "," else "[]")


def _text(value: object) -> str:
    """NULL is empty, times are ISO."""
    match value:
        case None:
            return ""
        case date():  # a datetime is one
            return value.isoformat()
        case _:
            return str(value)


HELP = """\
Statements end with `;`. \\d lists the tables, \\q leaves, \\? shows this.
`repo` is the root group; groups below it are tables, too: surface_hourly is /surface/hourly."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Queries:
    """`groups` are the tables by name: paths of groups that have arrays."""

    repository: Repository
    groups: Mapping[str, str]
    options: Mapping[str, object]  # what else `read` takes
    authorize: Mapping[str, str]
    output: OutputFormat
    _started: dict[str, Any] = field(default_factory=dict, repr=False)  # Spark, once it is needed

    @classmethod
    def of(
        cls,
        repo: str,
        *,
        group: str,
        version: Mapping[str, str | None],
        authorize: Mapping[str, str],
        output: OutputFormat,
    ) -> Self:
        """Raises if there is no such repository, version or group."""
        repository = open_repository(repo)
        if (given := version.get("snapshot")) is not None:
            version = {**version, "snapshot": str(parse_snapshot(repository, given))}
        names = {TABLE: group, PurePosixPath(repo.rstrip("/")).name: group}
        opened = _open_version(repository, version)
        return cls(
            repository=repository,
            groups=group_tables(opened.session, names),
            options=version,
            authorize=authorize,
            output=output,
        )

    def explain(self, query: str) -> None:
        """Explains how many chunks a query would read."""
        with self._current_catalog(query) as spark:
            plan = SqlPlan.of(spark, query)
        print(plan.summary or "reads no chunks")

    def run(self, query: str) -> None:
        with self._current_catalog(query) as spark:
            frame = times_as_text(spark.sql(query))
        kinds = [kind for _, kind in frame.dtypes]
        found = frame.toLocalIterator(prefetchPartitions=True)
        rows = (tuple(map(shortest_digits, row, kinds)) for row in found)
        print_rows(frame.columns, rows, self.output)

    @contextmanager
    def _current_catalog(self, query: str) -> Iterator[Any]:
        """Spark, with the tables as the current catalog: all that SQL knows of tables works."""
        spec = {**self.options, "path": self.repository, "authorize": dict(self.authorize)}
        tables = {name: {**spec, "group": path} for name, path in self.groups.items()}
        spark = self._spark()
        with current_catalog(spark, tables, query):
            yield spark

    def _spark(self) -> Any:
        if not self._started:
            self._started["spark"] = spark_session("sql", short_lived=True)
        return self._started["spark"]


def _open_version(repository: Repository, version: Mapping[str, str | None]) -> Opened:
    from frazil.spark.table.opened import place_of
    from frazil.spark.table.options import ReadOptions

    place = place_of(repository)
    chosen: Any = version
    options = ReadOptions(
        path=place.path, secret_storage=place.secret, version=make_version(**chosen)
    )
    return open_options(options)[0]


def read_statements(lines: Iterable[str | None]) -> Iterator[str]:
    """Splits the input into statements: each ends with `;` at the end of a line, or with the last
    line. None drops the lines of a statement that has not ended.
    """
    pending = list[str]()
    for line in lines:
        if line is None:
            pending = []
            continue
        pending.append(line.rstrip("\n"))
        if line.rstrip().endswith(";"):
            yield "\n".join(pending).rstrip().rstrip(";")
            pending = []
    rest = "\n".join(pending).strip()
    if rest:
        yield rest


def run_prompt(queries: Queries) -> None:
    """Until the end of input. A mistake is told, and the next statement awaited."""
    import readline  # noqa: F401 -- makes `input` a line editor

    print(HELP, file=sys.stderr)
    for statement in read_statements(_read_lines(queries)):
        try:
            queries.run(statement)
        except Exception as error:  # noqa: BLE001 -- told as everywhere; the prompt goes on
            print(describe(error).text, file=sys.stderr)
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)


def _read_lines(queries: Queries) -> Iterator[str | None]:
    """Lines as they are typed; None for control-C, which drops those before it."""
    fresh = True
    while True:
        try:
            line = input("frazil> " if fresh else "   ...> ")
        except EOFError:
            print(file=sys.stderr)
            return
        except KeyboardInterrupt:
            print(file=sys.stderr)
            fresh = True
            yield None
            continue
        match line.strip():
            case "\\q" | "exit" | "quit":
                return
            case "\\d":
                for name, path in queries.groups.items():
                    print(f"{name:<24}{path}")
            case "\\?":
                print(HELP)
            case "" if fresh:
                pass
            case text:
                fresh = text.endswith(";")
                yield line
