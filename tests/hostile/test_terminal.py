"""Names and messages of a repository do not steer the terminal that shows them."""

import json
import os
import pty
import re
import subprocess
from pathlib import Path

import pytest
import zarr

import frazil
from frazil.cli.output import NeutralStream, neutral
from tests.cli.running import COMMAND

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
EVIL = "hi \x1b[2J\x1b]52;c;aGk=\x07\x9b2J\u202eevil\x08\x7f\r!"
STEERING = re.compile("[\x00-\x08\x0b-\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@pytest.fixture(scope="module")
def evil(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("evil") / "repo"
    made = frazil.Repository.create(frazil.local_filesystem_storage(str(path)))
    session = made.writable_session("main")
    zarr.create_group(session.store, path=f"a{EVIL}", attributes={EVIL: EVIL})
    session.commit(EVIL, {"author": EVIL})
    return path


def on_a_terminal(*arguments: object) -> str:
    ours, theirs = pty.openpty()
    environment = os.environ | {"COLUMNS": "200", "TERM": "xterm"}
    try:
        with subprocess.Popen(
            [COMMAND, *map(str, arguments)], stdout=theirs, stderr=theirs, env=environment
        ):
            os.close(theirs)
            shown = b""
            try:
                while part := os.read(ours, 65536):
                    shown += part
            except OSError:  # Linux's way to say that the other side is closed
                pass
    finally:
        os.close(ours)
    return shown.decode()


@pytest.mark.parametrize("command", [["log"], ["ls"], ["log", "--json"], ["show"]], ids=" ".join)
def test_commands_show_control_characters_and_do_not_send_them(
    evil: Path, command: list[str]
) -> None:
    shown = COLOUR.sub("", on_a_terminal(command[0], evil, *command[1:])).replace("\r\n", "\n")
    assert "\\u001b[2J" in shown
    assert STEERING.search(shown) is None
    assert "\r" not in shown


def test_errors_do_not_steer_either(tmp_path: Path) -> None:
    shown = on_a_terminal("log", tmp_path / f"no{EVIL.replace('/', '')}")
    assert "error:" in shown
    assert STEERING.search(shown.replace("\r\n", "\n")) is None


def test_json_on_a_terminal_is_still_json(evil: Path) -> None:
    found = json.loads(COLOUR.sub("", on_a_terminal("log", evil, "--json")))
    assert found[0]["message"] == EVIL


def test_what_progress_bars_do_with_their_line_passes_on_standard_error_alone() -> None:
    class Kept:
        said = ""

        def write(self, text: str) -> None:
            self.said += text

    moves = "\r\x1b[2K\x1b[1A\x1b[?25l\x1b[1mbold\x1b[0m"
    out, err = Kept(), Kept()
    NeutralStream(out).write(moves)  # type: ignore[arg-type]  # writes, and that is all
    NeutralStream(err, moves=True).write(moves)  # type: ignore[arg-type]  # the same
    assert err.said == moves
    assert COLOUR.sub("", out.said) == neutral("\r\x1b[2K\x1b[1A\x1b[?25l") + "bold"
