"""docs/cli.md is what its commands print, but for ids, times and sizes."""

import shlex
from pathlib import Path

import pytest

from scripts.cli_story import STORY
from scripts.make_cli_docs import PAGE, Run, head, installed, normalised, prepare, render
from tests.cli.running import frazil

TEXT = PAGE.read_text()


def here(folder: Path) -> Run:
    """In this process, which is quick; lines with pipes in a shell."""
    in_shell = installed(folder)

    def run(line: str) -> str:
        if "|" in line:
            return in_shell(line)
        answer = frazil(*shlex.split(line)[1:])
        return answer.out + answer.err

    return run


def test_the_commands_print_what_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FRAZIL_REPOSITORIES", str(tmp_path / ".repositories.json"))
    prepare(tmp_path)
    for part in STORY:
        if part.spark:  # printed by `make cli-docs`; what it needs is tested in tests/spark
            continue
        made = normalised(render(here(tmp_path), [part]).replace(str(tmp_path), ""))
        assert made in normalised(TEXT), part.title


def test_the_tables_are_those_of_the_program() -> None:
    assert TEXT.startswith(head())


def test_a_line_runs_in_a_shell_too(tmp_path: Path) -> None:
    assert installed(tmp_path)("frazil lgo 2>&1 | head -n 1").startswith("error: No such command")
