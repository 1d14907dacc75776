"""On a terminal, output is dressed up, and says the same; without one, it is plain."""

import io
import os
import pty
import re
import shutil
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest import mock

import pytest

from frazil.cli.main import main
from tests.cli.conftest import Example
from tests.cli.running import COMMAND, read_or_end, succeeds

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
# One call of each command that reads, on copies of one repository.
LINES = (
    "log repo",
    "log repo --graph",
    "show repo",
    "diff repo v1 main",
    "ls repo",
    "tree repo",
    "head repo model/t2m",
    "cat repo model/t2m --isel time=0:2",
    "status repo",
    "branch list repo",
    "tag list repo",
    "ops repo",
    "config show repo",
    "flags list repo",
    "metadata show repo",
    "stats repo",
    "verify repo",
    "gc repo --dry-run",
    "expire repo --older-than 2000-01-01 --dry-run",
    "merge repo old --dry-run",
    "reset repo v1 --dry-run",
    "clone repo copy --dry-run",
    "migrate repo",
    "repo list",
    "help storage",
)


def on_a_terminal(*arguments: object, **environment: str) -> str:
    """What the command shows on a terminal 120 columns wide."""
    ours, theirs = pty.openpty()
    chosen = os.environ | {"COLUMNS": "120", "TERM": "xterm", "PAGER": "cat"} | environment
    try:
        with subprocess.Popen(
            [COMMAND, *map(str, arguments)], stdout=theirs, stderr=theirs, env=chosen
        ) as running:
            os.close(theirs)
            shown = b""
            while part := read_or_end(ours):
                shown += part
        assert running.returncode == 0, shown
    finally:
        os.close(ours)
    return shown.decode()


@pytest.mark.parametrize("line", LINES)
def test_a_terminal_shows_the_same_words(
    example: Example, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    shutil.copytree(example.path, tmp_path / "repo")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("PAGER", "cat")
    plain = succeeds(*line.split()).out
    assert "\x1b" not in plain
    shown = ESCAPES.sub("", as_on_a_terminal(*line.split()))
    assert timeless(shown).split() == timeless(plain).split()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def as_on_a_terminal(*arguments: str) -> str:
    """Standard output of the command in this process, which takes it for a terminal."""
    out = Terminal()
    with (
        mock.patch.object(sys, "argv", [str(COMMAND), *arguments]),
        redirect_stdout(out),
        redirect_stderr(Terminal()),
        pytest.raises(SystemExit) as ended,
    ):
        main()
    assert not ended.value.code
    return out.getvalue()


def timeless(text: str) -> str:
    return re.sub(r"\d\d:\d\d:\d\d|\d+\.\d+ s", "TIME", text)


def test_tables_and_pictures_have_colours_unless_told_otherwise(example: Example) -> None:
    for line in (["log"], ["log", "--graph"]):
        words = [line[0], example.path, *line[1:]]
        assert ESCAPES.search(on_a_terminal(*words))
        assert "\x1b[38" not in on_a_terminal(*words, NO_COLOR="1")


def test_brackets_in_a_message_are_not_markup(example: Example) -> None:
    assert "first [day]" in on_a_terminal("log", example.path)


def test_what_is_longer_than_the_screen_goes_to_the_pager(example: Example, tmp_path: Path) -> None:
    pager = tmp_path / "pager"
    pager.write_text("#!/bin/sh\necho PAGED; cat\n")
    pager.chmod(0o755)
    long = on_a_terminal("tree", example.path, PAGER=str(pager), LINES="3")
    assert long.startswith("PAGED")
    assert "t2m" in long
    assert "PAGED" not in on_a_terminal("tree", example.path, PAGER=str(pager), LINES="50")
    assert "t2m" in on_a_terminal("tree", example.path, PAGER="/nowhere/less", LINES="3")
