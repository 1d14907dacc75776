"""Commands with --spark, in the session of the tests: what the same commands say without."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from frazil.cli.main import app
from tests.spark.repositories import make_weather

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

# What is new has another name, and another size.
NEW = ("snapshot_id", "commits", "size_bytes", "bytes_deleted", "peak_memory_bytes")
COMMANDS = {
    "rewrite-manifests": ("--split", "time=2"),
    "pack": ("--small", "4000", "--size", "20000"),
    "unpack": (),
    "purge": ("/pressure", "--dry-run"),
    "gc": ("--older-than", "2100-01-01", "--safety-age", "0", "--yes"),
    "verify": ("--decode",),
}


def run(*arguments: object) -> Any:
    given = [*map(str, arguments), "--json"]
    answer = CliRunner().invoke(app, given, catch_exceptions=False)
    assert answer.exit_code == 0, answer.output
    return json.loads(answer.stdout)


@pytest.fixture(scope="module")
def weather(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its chunks are in packs, and once were not."""
    path = tmp_path_factory.mktemp("commands") / "repo"
    repo = make_weather(path)
    repo.unpack(branch="main")
    repo.pack(branch="main", small_bytes=2000, pack_bytes=6000)
    return path


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_says_the_same_with_spark(command: str, weather: Path, tmp_path: Path) -> None:
    said = []
    for place, option in (("here", ()), ("there", ("--spark",))):
        repo = shutil.copytree(weather, tmp_path / place)
        found = run(command, repo, *COMMANDS[command], *option)
        said.append({key: value for key, value in found.items() if key not in NEW})
    assert said[0] == said[1]


def test_a_repair_is_not_for_spark(weather: Path) -> None:
    answer = CliRunner().invoke(app, ["verify", str(weather), "--repair", "--spark"])
    assert answer.exit_code == 2
