"""The rows of a query's result, as a table, as CSV or as JSON."""

import csv
import json
import sys
from collections.abc import Iterable, Sequence
from datetime import date
from itertools import islice
from typing import assert_never

from frazil.cli.output import print_table
from frazil.cli.sql import OutputFormat

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
