"""The `frazil` command: in this process, which is quick, or installed, as a user runs it.

That both answer the same is tested in test_transcripts.py, for every command.
"""

import io
import json
import logging
import os
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from typer.main import get_command

from frazil.cli.main import app, main

COMMAND = Path(sys.executable).with_name("frazil")
PATIENCE_S = 300  # with a JVM, on a busy machine


def walk() -> Iterator[tuple[str, Any]]:
    """Commands by their full names, `branch list` and so on."""
    root: Any = get_command(app)
    for name, command in root.commands.items():
        inner = getattr(command, "commands", None)
        if inner is None:
            yield name, command
        else:
            yield from ((f"{name} {each}", inner[each]) for each in inner)


EVERY = dict(walk())


@dataclass(frozen=True, slots=True)
class Answer:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


def installed(*arguments: object) -> Answer:
    """What the installed command answers, in a process of its own."""
    done = subprocess.run(
        [COMMAND, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    return Answer(done.returncode, done.stdout, done.stderr)


def frazil(*arguments: object) -> Answer:
    """What the command answers in this process; its standard output is not a terminal."""
    out, err = io.StringIO(), io.StringIO()
    with (
        Path(os.devnull).open() as nothing,
        mock.patch.object(sys, "argv", [str(COMMAND), *map(str, arguments)]),
        mock.patch.object(sys, "stdin", nothing),
        _logs_of_a_new_process(),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        code = _exit_code()
    return Answer(code, out.getvalue(), err.getvalue())


def _exit_code() -> int:
    try:
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except Exception:  # noqa: BLE001 - what Python does with an error that nobody catches
        traceback.print_exc()
        return 1
    return 0


@contextmanager
def _logs_of_a_new_process() -> Iterator[None]:
    """Nobody handles them, so that warnings go to standard error, and nothing stays disabled."""
    root = logging.getLogger()
    disabled = logging.root.manager.disable
    with mock.patch.object(root, "handlers", []):
        try:
            yield
        finally:
            logging.disable(disabled)


def succeeds(*arguments: object) -> Answer:
    answer = frazil(*arguments)
    assert (answer.code, answer.err) == (0, ""), answer
    return answer


def fails(*arguments: object, code: int = 1) -> list[str]:
    """The lines of an error message: what went wrong, and perhaps a hint. No trace, no output."""
    answer = frazil(*arguments)
    assert (answer.code, answer.out) == (code, ""), answer
    lines = answer.err.splitlines()
    assert lines[0].startswith("error: "), answer
    assert all(line.startswith("hint: ") for line in lines[1:]), answer
    return lines


def read_or_end(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux's way to say that the other side is closed
        return b""
