"""The blocks of docs/generations.md run, and its table has every generation."""

import re
import subprocess
import sys
from pathlib import Path

import icechunk
import pytest

import frazil
from frazil.format.generation import Generation
from tests.conformance.generations import put, repository_files

PAGE = Path(__file__).parents[2] / "docs" / "generations.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def test_the_blocks_run(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(BLOCKS)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "A2e",
        "['half of it', 'Repository initialized']",
        "[ 7.  7. -1. -1.]",
    ]


@pytest.mark.compat
def test_the_reference_does_not_find_what_frazil_opens(tmp_path: Path) -> None:
    place = str(put(repository_files("A3e-eeb8f7f7-20250130"), tmp_path))
    with pytest.raises(icechunk.IcechunkError, match="doesn't exist"):
        icechunk.Repository.open(icechunk.local_filesystem_storage(place))
    storage = frazil.local_filesystem_storage(place)
    assert frazil.Repository.exists(storage)
    assert frazil.Repository.fetch_spec_version(storage) == 1
    assert frazil.Repository.open(storage).generation == "A3e"


def test_the_table_has_every_generation_and_says_which_are_written() -> None:
    table = PAGE.read_text().partition("\n| generation")[2].partition("\n\n")[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]
    ]
    names = list(Generation)
    listed: dict[Generation, bool] = {}
    for cells in rows:
        for part in cells[0].split(", "):
            first, _, last = part.partition(" to ")
            start, stop = names.index(Generation(first)), names.index(Generation(last or first))
            for name in names[start : stop + 1]:
                if name is not Generation.ALPHA1 or first == "alpha1":
                    listed[name] = cells[4] != "no"
    assert listed == {name: name.is_written for name in names}
