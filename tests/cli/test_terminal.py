"""On a terminal, output is dressed up, and says the same; without one, it is plain."""

import os
import pty
import re
import subprocess
from pathlib import Path

from tests.cli.conftest import Example
from tests.cli.running import COMMAND, frazil, read_or_end

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


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


def test_tables_and_pictures_have_colours_unless_told_otherwise(example: Example) -> None:
    for line in (["log"], ["log", "--graph"]):
        words = [line[0], example.path, *line[1:]]
        assert ESCAPES.search(on_a_terminal(*words))
        assert "\x1b[38" not in on_a_terminal(*words, NO_COLOR="1")


def test_a_table_that_does_not_fit_the_terminal_is_wrapped_and_one_that_does_is_not(
    example: Example,
) -> None:
    """Two ways to print a table: the same cells in both, and no line wider than the terminal."""
    wide, narrow = (
        on_a_terminal("log", example.path),
        on_a_terminal("log", example.path, COLUMNS="30"),
    )
    plain = frazil("log", example.path).out
    assert [line.rstrip() for line in ESCAPES.sub("", wide).splitlines()] == plain.splitlines()
    folded = ESCAPES.sub("", narrow).splitlines()
    assert max(map(len, folded)) <= 30
    assert len(folded) > len(plain.splitlines())
    assert sorted("".join(folded).replace(" ", "")) == sorted("".join(plain.split()))


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
