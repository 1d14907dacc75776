"""Writes docs/spark-statements.md: the statements that Iceberg teaches, and where they work here.

python -m tests.spark.iceberg_statements session results/session.json   # and other ways
python -m scripts.spark_statements results/*.json
"""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.spark.iceberg_statements import STATEMENTS, TAUGHT, WAYS, WORKING, Statement

PAGE = Path(__file__).parents[1] / "docs" / "spark-statements.md"
INTRODUCTION = """\
# Statements that Iceberg teaches

Statements of Iceberg's documentation of Spark (queries, writes, getting started, configuration, DDL, procedures), run against a repository `db.table` with a branch `audit-branch` and a tag `historical-snapshot`, in catalogs with the names that its pages use.
{taught} run with nothing but names changed, {same} of them letter by letter: the others name a metadata table or a table differently, or have an id, which is a text in Icechunk, or a time after the first commit. {close} more have something close. {own} are Spark's own.
Written by `scripts/spark_statements.py`; do not edit. `tests/spark/iceberg_statements.py` has the list, and the rows that each must give; of `spark-sql` it is only known that the statement ran. "not run" means just that.

| way of connecting | |
|---|---|
| session | `frazil.spark.session()`, or `frazil.spark.register(spark)` on a session |
| configuration | only `spark.jars` and `spark.sql.catalog.*`, as for `spark-submit` |
| connect | a Spark Connect server that gets the jar as an artifact of the client |
| spark-sql | the shell, without a Python driver |

"""  # noqa: E501 -- lines of a page


@dataclass(frozen=True, slots=True)
class Run:
    """The results of one way with one version: a problem by statement, empty for none."""

    way: str
    version: str
    results: Mapping[str, str]


def format_page(runs: Sequence[Run]) -> str:
    versions = sorted({run.version for run in runs})
    close = [each for each in WORKING if each.close]
    own = [each for each in WORKING if each.page == "spark"]
    return (
        INTRODUCTION.format(
            taught=len(TAUGHT),
            same=sum(not each.here for each in TAUGHT),
            close=len(close),
            own=len(own),
        )
        + _summary(runs, versions)
        + "\n## With nothing but names changed\n\n"
        + _statements(runs, TAUGHT)
        + "\n## Where more than names had to change\n\nThese are not the same statement.\n\n"
        + _statements(runs, close)
        + "\n## Spark's own, which Iceberg's pages take for granted\n\n"
        + _statements(runs, own)
        + "\n## What cannot work\n\n"
        + _refused()
    )


def _summary(runs: Sequence[Run], versions: Sequence[str]) -> str:
    lines = [f"| of these {len(WORKING)} | {' | '.join(versions)} |"]
    lines.append("|---|" + "---|" * len(versions))
    for way in WAYS:
        cells = [_count(_find(runs, way, version)) for version in versions]
        lines.append(f"| {way} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _find(runs: Sequence[Run], way: str, version: str) -> Run | None:
    return next((run for run in runs if (run.way, run.version) == (way, version)), None)


def _count(run: Run | None) -> str:
    return "not run" if run is None else str(sum(not run.results[s.sql] for s in WORKING))


def _statements(runs: Sequence[Run], statements: Sequence[Statement]) -> str:
    lines = ["| statement | here, if it differs | works |", "|---|---|---|"]
    for each in statements:
        here = _code(each.here) if each.here else ""
        here += f" ({each.close})" if each.close else ""
        lines.append(f"| {_code(each.text)} | {here} | {_works(runs, each)} |")
    return "\n".join(lines) + "\n"


def _works(runs: Sequence[Run], statement: Statement) -> str:
    failed = [f"{run.way} {run.version}" for run in runs if run.results[statement.sql]]
    return "in every run above" if not failed else f"not with {', '.join(failed)}"


def _refused() -> str:
    lines = ["| Iceberg | why |", "|---|---|"]
    lines += [f"| {_code(each.text)} | {each.reason} |" for each in STATEMENTS if each.reason]
    return "\n".join(lines) + "\n"


def _code(text: str) -> str:
    """Code in a cell of a table; backticks are part of some names."""
    quotes = "``" if "`" in text else "`"
    space = " " if "`" in text else ""
    return f"{quotes}{space}{text.replace('|', chr(92) + '|')}{space}{quotes}"


def main(paths: Sequence[str]) -> None:
    found = [json.loads(Path(path).read_text()) for path in paths]
    runs = [Run(each["way"], each["version"], each["results"]) for each in found]
    PAGE.write_text(format_page(sorted(runs, key=lambda run: (WAYS.index(run.way), run.version))))


if __name__ == "__main__":
    main(sys.argv[1:])
