"""docs/explorer.md: its program runs, its commands and pictures are there, its API is complete."""

import re
import subprocess
import sys
from pathlib import Path

from PIL import Image
from typer.main import get_command

from frazil.cli.main import app
from frazil.web.endpoints import ENDPOINTS
from frazil.web.server import SQL

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "explorer.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_program_runs(tmp_path: Path) -> None:
    (block,) = blocks("python")
    done = subprocess.run(
        [sys.executable, "-c", block],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    url, mean = done.stdout.split()
    assert url.startswith("http://127.0.0.1:")
    assert mean == "2.5"


def test_the_options_are_there() -> None:
    (block,) = blocks("shell")
    command = get_command(app).commands["serve"]  # type: ignore[attr-defined]  # a group
    known = {option for each in command.params for option in each.opts}
    for line in block.splitlines()[1:]:
        assert line.startswith("frazil serve ")
        assert set(re.findall(r"--[a-z-]+", line)) <= known


def test_pictures_are_there_and_small() -> None:
    """All of them; tests/web/test_screens.py compares them with the pages."""
    pictures = {DOCS / each for each in re.findall(r"\]\((images/[^)]+)\)", PAGE)}
    assert pictures == set((DOCS / "images" / "explorer").iterdir())
    for picture in pictures:
        with Image.open(picture) as image:
            assert image.width == int(picture.stem.split("-")[1])
        assert picture.stat().st_size < 150_000
    assert len(re.findall(r"^!\[", PAGE, re.MULTILINE)) == 7


def test_the_api_is_listed() -> None:
    for endpoint in [*ENDPOINTS, SQL]:
        assert f"`{endpoint.removesuffix('.png')}`" in PAGE
