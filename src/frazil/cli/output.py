"""What commands print: JSON for programs, tables for people."""

import json
import logging
import sys
from collections.abc import Mapping, Sequence

from frazil.cli.neutral import neutral
from frazil.clock import to_datetime

type Cell = str | int | float | None


def silence_logs() -> None:
    """For commands on Spark: PySpark logs every error as JSON before raising it."""
    logging.disable(logging.CRITICAL)


def print_json(value: object) -> None:
    text = json.dumps(value, indent=2, ensure_ascii=False, default=str)
    print(neutral(text) if sys.stdout.isatty() else text)


def print_table(headers: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    """Columns, aligned; with rich's looks when standard output is a terminal."""
    if not rows:
        return
    cells = [["" if cell is None else str(cell) for cell in row] for row in rows]
    if sys.stdout.isatty():
        _print_rich_table(headers, [list(map(neutral, row)) for row in cells])
        return
    lines = [list(headers), *cells]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        padded = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        print("  ".join(padded).rstrip())


def _print_rich_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False)
    for header in headers:
        table.add_column(header, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))  # Text: a message with [brackets] is not markup
    Console().print(table)


def format_time(at_us: int) -> str:
    """UTC, to the second, for people."""
    return to_datetime(at_us).strftime("%Y-%m-%d %H:%M:%S")


def print_refs(refs: Mapping[str, object], *, as_json: bool) -> None:
    """Branches or tags: name and snapshot id."""
    listed = {name: str(refs[name]) for name in sorted(refs)}
    if as_json:
        print_json(listed)
    else:
        print_table(["name", "snapshot"], list(listed.items()))
