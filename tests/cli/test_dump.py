import json
from pathlib import Path

import pytest

from frazil.describe.inspect import dump_file
from frazil.format.envelope import HEADER
from tests.cli.conftest import Example
from tests.cli.running import fails, frazil, succeeds
from tests.conformance.generations import ARCHIVES, repository_files


def files(example: Example, kind: str) -> list[Path]:
    found = sorted(path for path in (example.path / kind).iterdir() if path.is_file())
    assert found
    return found


def test_dump_shows_the_repo_info(example: Example) -> None:
    content = succeeds("dump", example.path / "repo").json
    assert example.ids()[2] in str(content)
    assert "second day" in str(content)


@pytest.mark.parametrize("kind", ["snapshots", "manifests", "transactions", "overwritten"])
def test_dump_shows_every_kind_of_file(example: Example, kind: str) -> None:
    for file in files(example, kind):
        assert isinstance(succeeds("dump", file).json, dict)


def test_dump_full_shows_no_less(example: Example) -> None:
    for file in files(example, "manifests"):
        assert len(succeeds("dump", file, "--full").out) >= len(succeeds("dump", file).out)


def test_dump_of_a_foreign_file_is_one_clear_line(foreign_file: Path) -> None:
    (line,) = fails("dump", foreign_file)
    assert str(foreign_file) in line
    assert "not an icechunk file" in line


@pytest.mark.parametrize("size", [0, 10, HEADER.size, HEADER.size + 20])
def test_dump_of_a_truncated_file_names_it(example: Example, tmp_path: Path, size: int) -> None:
    cut = tmp_path / "cut"
    cut.write_bytes((example.path / "repo").read_bytes()[:size])
    line, *_ = fails("dump", cut)
    assert str(cut) in line


def test_dump_of_a_missing_file(tmp_path: Path) -> None:
    assert fails("dump", tmp_path / "nope") == [
        f"error: {tmp_path / 'nope'}: No such file or directory"
    ]


def test_dump_of_a_directory(tmp_path: Path) -> None:
    assert fails("dump", tmp_path) == [f"error: {tmp_path}: Is a directory"]


def test_dump_needs_a_file() -> None:
    assert frazil("dump").code == 2


@pytest.mark.parametrize("name", [name for name in ARCHIVES if name.startswith(("A1", "A2", "A3"))])
def test_dump_shows_files_of_old_generations(name: str, tmp_path: Path) -> None:
    shown = 0
    for key, data in repository_files(name).items():
        folder = key.partition("/")[0]
        if folder not in {"s", "m", "snapshots", "manifests", "transactions"}:
            continue
        file = tmp_path / "file"
        file.write_bytes(data)
        content = dump_file(data)
        assert content["encoding"] == "msgpack"
        json.dumps(content)
        shown += 1
    assert shown > 3
    assert succeeds("dump", file).json == json.loads(json.dumps(content))
    assert dump_file(data, max_rows=1) != content or len(str(content)) < 500
