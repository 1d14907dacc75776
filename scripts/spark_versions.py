"""Writes docs/spark-versions.md: what holds with which PySpark, as `make spark-matrix` found."""

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

PAGE = Path(__file__).parents[1] / "docs" / "spark-versions.md"
INTRODUCTION = """\
# PySpark versions

Tests that passed with each PySpark that frazil supports, each version in an environment of its own. Written by `make spark-matrix`; do not edit.
PySpark's own filter pushdown (`pushFilters` of Python data sources) is measured with each version, and gives wrong results with all of them: the plain source leaves it off. The native table pushes filters through Java instead ([how](spark-native.md)).

"""  # noqa: E501 -- lines of a page

# What the tests of a file are about
AREAS = {
    "rows, chunks, types": ("test_read", "test_chunk_rows", "test_dtypes"),
    "SQL: pruned queries, views, table functions": (
        "test_sql",
        "test_sql_objects",
        "test_sql_plan",
    ),
    "SQL that may only read, as in the explorer": ("test_read_only",),
    "native table: pushdown, random queries against DuckDB, chunks counted": (
        "test_native_oracle",
        "test_native_sets",
        "test_native_chunks",
        "test_native_table",
        "test_native_joins",
    ),
    "ways to run Spark": ("test_native_ways",),
    "columns and metrics of the native table": ("test_native_reader",),
    "metadata tables": ("test_tables",),
    "the catalog: names, versions, procedures, Iceberg's statements": ("test_native_catalog",),
    "the catalog: CREATE, ALTER, DROP; CALL that changes something": (
        "test_native_ddl",
        "test_native_procedures",
    ),
    "PySpark's pushFilters is as measured, and off": ("test_pushdown",),
    "writes": ("test_write", "test_native_write"),
    "INSERT, UPDATE, DELETE, MERGE against DuckDB": ("test_native_dml",),
    "several writes, one commit": ("test_transaction",),
    "streams of rows into a repository": ("test_write_stream",),
    "streams of commits": ("test_streams",),
    "change data: CHANGES, batches, functions, streams": ("test_changes",),
    "ingest, copied and virtual": ("test_ingest", "test_ingest_virtual"),
    "rechunk, reduce, map_blocks, export, clone": (
        "test_rechunk",
        "test_two_passes",
        "test_reduce",
        "test_map_blocks",
        "test_export",
        "test_clone",
    ),
    "maintenance": ("test_rewriting",),
    "declarative pipelines: tables and a sink": ("test_declarative",),
    "Spark Connect: reads, writes, streams, pipelines": ("test_connect",),
}


@dataclass(frozen=True, slots=True)
class Outcome:
    module: str  # of the test
    passed: bool


def outcomes_in(report: str) -> list[Outcome]:
    """Results of a JUnit report. Skipped tests did not pass."""
    cases = ET.fromstring(report).iter("testcase")  # noqa: S314 -- our own pytest wrote it
    return [
        Outcome(
            case.attrib["classname"].rsplit(".", 1)[-1],
            all(child.tag not in {"failure", "error", "skipped"} for child in case),
        )
        for case in cases
    ]


def format_page(reports: Mapping[str, Sequence[Outcome]]) -> str:
    """A row per area, a column per version."""
    lines = [f"| | {' | '.join(reports)} |", f"|---|{'---|' * len(reports)}"]
    for area, modules in AREAS.items():
        cells = (_cell(outcomes, modules) for outcomes in reports.values())
        lines.append(f"| {area} | {' | '.join(cells)} |")
    return INTRODUCTION + "\n".join(lines) + "\n"


def without_area(outcomes: Iterable[Outcome]) -> set[str]:
    known = {module for modules in AREAS.values() for module in modules}
    return {outcome.module for outcome in outcomes} - known


def _cell(outcomes: Iterable[Outcome], modules: Sequence[str]) -> str:
    found = Counter(outcome.passed for outcome in outcomes if outcome.module in modules)
    if not found:
        return "not run"
    bad = f", **{found[False]} not**" if found[False] else ""
    return f"{found[True]} passed{bad}"


def main(names: Sequence[str]) -> None:
    """Each name is VERSION=REPORT."""
    pairs = [name.split("=", 1) for name in names]
    reports = {version: outcomes_in(Path(path).read_text()) for version, path in pairs}
    homeless = {module for outcomes in reports.values() for module in without_area(outcomes)}
    if homeless:
        raise SystemExit(f"no area has {', '.join(sorted(homeless))}: see AREAS")
    PAGE.write_text(format_page(reports))


if __name__ == "__main__":
    main(sys.argv[1:])
