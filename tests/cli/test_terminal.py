"""On a terminal, output is dressed up, and says the same."""

import os
import pty
import re
import subprocess

from tests.cli.conftest import Example
from tests.cli.running import COMMAND, succeeds

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


def on_a_terminal(*arguments: object) -> str:
    """What the command shows on a terminal 120 columns wide."""
    ours, theirs = pty.openpty()
    environment = os.environ | {"COLUMNS": "120", "TERM": "xterm"}
    try:
        with subprocess.Popen(
            [COMMAND, *map(str, arguments)], stdout=theirs, stderr=theirs, env=environment
        ) as running:
            os.close(theirs)
            shown = b""
            while part := read_or_end(ours):
                shown += part
        assert running.returncode == 0, shown
    finally:
        os.close(ours)
    return shown.decode()


def read_or_end(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux's way to say that the other side is closed
        return b""


def test_a_table_has_colours_and_the_same_words(example: Example) -> None:
    shown = on_a_terminal("log", example.path)
    assert ESCAPES.search(shown)
    assert ESCAPES.sub("", shown).split() == succeeds("log", example.path).out.split()


def test_brackets_in_a_message_are_not_markup(example: Example) -> None:
    assert "first [day]" in on_a_terminal("log", example.path)
