"""docs/tutorial.md from top to bottom: its Python runs, and its commands print what it says.

python -m tests.docs.test_tutorial        writes down what the commands print
"""

import re
import shlex
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from scripts.make_cli_docs import normalised
from tests.cli.running import frazil

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def printed(block: str) -> str:
    """The lines that are typed in a block, each with what it prints now."""
    shown = list[str]()
    for line in re.findall(r"^\$ (.*)$", block, re.MULTILINE):
        program, *words = shlex.split(line)
        assert program == "frazil"
        answer = frazil(*words)
        assert (answer.code, answer.err) == (0, ""), (line, answer)
        shown += [f"$ {line}", *answer.out.rstrip().splitlines()]
    return "\n".join(shown) + "\n"


def run_blocks(page: str) -> Callable[[re.Match[str]], str]:
    """Runs each block when it is called with it; the block as it should be."""
    names: dict[str, object] = {"__name__": "page"}

    def run(block: re.Match[str]) -> str:
        if block[1] == "console":
            return f"```console\n{printed(block[2])}```"
        lines_before = page[: block.start(2)].count("\n")
        exec(compile("\n" * lines_before + block[2], str(PAGE), "exec"), names)  # noqa: S102 -- ours
        return block[0]

    return run


def test_the_tutorial_does_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FRAZIL_REPOSITORIES", str(tmp_path / ".repositories.json"))
    monkeypatch.setenv("MPLBACKEND", "agg")
    page = PAGE.read_text()
    run = run_blocks(page)
    blocks = list(BLOCK.finditer(page))
    assert {block[1] for block in blocks} == {"python", "console"}
    for block in blocks:
        assert normalised(run(block)) == normalised(block[0])


def main() -> None:
    page = PAGE.read_text()
    with TemporaryDirectory() as folder, chdir(folder):
        PAGE.write_text(BLOCK.sub(run_blocks(page), page))


if __name__ == "__main__":
    main()
