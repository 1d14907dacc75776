"""The block of docs/maintenance.md runs; its commands and options are those there are."""

import re
import subprocess
import sys
from pathlib import Path

from typer.main import get_command

from frazil.cli.main import app

PAGE = (Path(__file__).parents[2] / "docs" / "maintenance.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_block_runs(tmp_path: Path) -> None:
    (block,) = blocks("python")
    done = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning:__main__", "-c", block],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "smaller safety age" in done.stdout


def test_the_commands_and_their_options_are_there() -> None:
    (block,) = blocks("shell")
    commands = get_command(app).commands  # type: ignore[attr-defined]  # a group of commands
    told = set()
    for line in block.splitlines():
        name = line.split()[1]
        known = {option for each in commands[name].params for option in each.opts}
        assert set(re.findall(r"--[a-z-]+", line)) <= known, line
        told.add(name)
    assert told == {"stats", "expire", "gc"}
