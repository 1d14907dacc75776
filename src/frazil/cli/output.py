"""Output of commands: JSON for programs, tables for people."""

import io
import json
import logging
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from enum import StrEnum
from shutil import get_terminal_size
from threading import Event, Thread
from time import monotonic
from types import TracebackType
from typing import Any, Self, TextIO, override

import typer

from frazil.clock import to_datetime

TABLE = "repo"  # name of the repository in SQL
_COLUMN_GAP = "  "


class OutputFormat(StrEnum):
    TABLE = "table"
    CSV = "csv"
    JSON = "json"


# Neutral output: names and messages are untrusted, and a terminal obeys what it is sent.
#
# A commit message may clear the screen, rename the window, or type an answer for the user. On a
# terminal control characters are shown as `\u001b`, as JSON does it, and so are those that turn the
# direction of writing around. Colours pass: commands use them. What goes to a file or a pipe is
# left alone.

_CONTROLS = "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
_CONTROL = re.compile(f"[{_CONTROLS}]")
_COLOUR = r"\x1b\[[0-9;]*m"
# What progress bars do with their own line: go back, up, erase, hide the cursor.
_MOVES = r"\r(?!\n)|\r\n|\x1b\[[0-9]*[AK]|\x1b\[2K|\x1b\[\?25[lh]"
_OUT = re.compile(f"({_COLOUR})|[{_CONTROLS}]")
_ERR = re.compile(f"({_COLOUR}|{_MOVES})|[{_CONTROLS}]")


def neutral(text: str) -> str:
    """The text without anything that a terminal would act upon, but for new lines and tabs."""
    return _CONTROL.sub(_escape, text)


class NeutralStream:
    """A terminal to write to that is sent no more than colours and, if asked for, progress."""

    def __init__(self, inner: TextIO, *, moves: bool = False) -> None:
        self._inner = inner
        self._pattern = _ERR if moves else _OUT

    def write(self, text: str) -> int:
        self._inner.write(self._pattern.sub(_keep_or_escape, text))
        return len(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class Guarded:
    """Standard output and errors are neutral as long as it lasts, as far as they are terminals."""

    def __enter__(self) -> Self:
        self._before = sys.stdout, sys.stderr
        if sys.stdout.isatty():
            sys.stdout = NeutralStream(sys.stdout)
        if sys.stderr.isatty():
            sys.stderr = NeutralStream(sys.stderr, moves=True)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        sys.stdout, sys.stderr = self._before


def _keep_or_escape(match: re.Match[str]) -> str:
    return match[1] or _escape(match)


def _escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


type Cell = str | int | float | None


def silence_logs() -> None:
    """Silences Spark's logs: PySpark logs every error as JSON before raising it."""
    logging.disable(logging.CRITICAL)


def print_json(value: object) -> None:
    text = json.dumps(value, indent=2, ensure_ascii=False, default=str)
    print(neutral(text) if sys.stdout.isatty() else text)


# Names of fields in Python that have another name in JSON: docs/cli.md lists the names.
_IN_JSON = {"snapshot": "snapshot_id", "bytes": "size_bytes", "snapshot_ids": "new_snapshot_ids"}


def result_as_json(result: Any, **more: object) -> dict[str, object]:
    """The fields of a result, by the names that all commands use."""
    return {_IN_JSON.get(name, name): value for name, value in (more | asdict(result)).items()}


def print_table(headers: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    """Columns, aligned; on a terminal with bold headers, and cells wrapped to its width."""
    if not rows:
        return
    cells = [["" if cell is None else str(cell) for cell in row] for row in rows]
    if sys.stdout.isatty():
        cells = [list(map(neutral, row)) for row in cells]
    lines = [list(headers), *cells]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    if sys.stdout.isatty() and not _fits_screen(lines, widths):
        _print_rich_table(headers, cells)
        return
    for number, line in enumerate(lines):
        padded = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        text = _COLUMN_GAP.join(padded).rstrip()
        print(f"\x1b[1m{text}\x1b[0m" if number == 0 and wants_colour() else text)


def _fits_screen(lines: Sequence[Sequence[str]], widths: Sequence[int]) -> bool:
    """True if no cell needs to be wrapped, nor measured by how wide a terminal shows its letters.

    Most tables fit. They are printed without rich, which takes 0.04 s to import.
    """
    width = sum(widths) + len(_COLUMN_GAP) * (len(widths) - 1)
    is_simple = all(cell.isascii() and cell.isprintable() for line in lines for cell in line)
    return is_simple and width <= get_terminal_size().columns


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


def wants_colour() -> bool:
    """True on a terminal, unless NO_COLOR is set (no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


# A pager for what is longer than the screen, as with git.


class _ScreenBuffer(io.StringIO):
    """Output of a command, written as for a terminal."""

    @override
    def isatty(self) -> bool:
        return True


@contextmanager
def paged() -> Iterator[None]:
    """Shows output that is longer than a terminal's screen by $FRAZIL_PAGER, $PAGER or less.

    `cat`, or an empty value, turns it off.
    """
    if not sys.stdout.isatty():
        yield
        return
    terminal, buffer = sys.stdout, _ScreenBuffer()
    sys.stdout = buffer
    try:
        yield
    finally:
        sys.stdout = terminal
        text = buffer.getvalue()
        pager = _pager() if text.count("\n") >= get_terminal_size().lines else None
        if pager is None or not _show_with(pager, text):
            terminal.write(text)


def _pager() -> list[str] | None:
    named = (os.environ.get(name) for name in ("FRAZIL_PAGER", "PAGER"))
    words = shlex.split(next((each for each in named if each is not None), "less"))
    return None if not words or words == ["cat"] else words


def _show_with(pager: list[str], text: str) -> bool:
    """False if there is no such program."""
    shown = _OUT.sub(_keep_or_escape, text)
    try:
        subprocess.run(
            pager, input=shown, text=True, check=False, env={"LESS": "FRX", **os.environ}
        )
    except OSError:
        return False
    return True


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


@contextmanager
def shown_while(doing: str) -> Iterator[None]:
    """A line on the terminal until something else is shown: at once, before anything is imported.

    Seconds are counted by a thread, on a file descriptor of its own: Spark's start redirects
    standard error.
    """
    if not sys.stderr.isatty():
        yield
        return
    sys.stderr.flush()
    terminal, done = os.dup(2), Event()

    def count_seconds() -> None:
        started = monotonic()
        while not done.wait(1):
            text = f"\r{doing} ... {monotonic() - started:.0f} s"
            os.write(terminal, text.encode())

    os.write(terminal, f"{doing} ...".encode())
    counter = Thread(target=count_seconds, daemon=True)
    counter.start()
    try:
        yield
    finally:
        done.set()
        counter.join()
        os.write(terminal, b"\r\x1b[K")
        os.close(terminal)


# Progress of work in this process, as a bar on a terminal.

type Tell = Callable[[str, int, int], None]


@contextmanager
def progress_bar() -> Iterator[Tell | None]:
    """None if standard error is not a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        tasks = {}

        def tell(doing: str, done: int, total: int) -> None:
            if doing not in tasks:
                tasks[doing] = bar.add_task(doing, total=total or None)
            bar.update(tasks[doing], completed=done, total=total or None)

        yield tell


# Confirmation before history is changed that others may rely on.


def require_consent(effect: str, *, given: bool) -> None:
    """Asks at a terminal; elsewhere --yes must have been given. `effect` begins with a verb."""
    if given:
        return
    if not sys.stdin.isatty():
        raise typer.BadParameter(f"this would {effect}. Not a terminal; pass --yes to confirm")
    typer.confirm(f"This will {effect}. Continue?", abort=True, err=True)
