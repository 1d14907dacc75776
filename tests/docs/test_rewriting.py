"""The blocks of docs/rewriting.md run, one after the other; its commands are those there are."""

import re
import subprocess
import sys
from pathlib import Path

from frazil.cli.commands import COMMANDS

PAGE = (Path(__file__).parents[2] / "docs" / "rewriting.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_blocks_run(tmp_path: Path) -> None:
    found = blocks("python")
    assert len(found) == 2
    done = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning:__main__", "-c", "\n".join(found)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_commands_are_there() -> None:
    told = {line.split()[1] for block in blocks("shell") for line in block.splitlines()}
    assert told == {"rewrite-manifests", "pack", "unpack", "purge"}
    assert told <= COMMANDS.keys()
