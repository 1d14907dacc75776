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


def run(*arguments: object) -> Any:
    given = [*map(str, arguments), "--json"]
    answer = CliRunner().invoke(app, given, catch_exceptions=False)
    assert answer.exit_code == 0, answer.output
    return json.loads(answer.stdout)


@pytest.fixture
def twins(tmp_path: Path) -> tuple[Path, Path]:
    make_weather(tmp_path / "here").unpack(branch="main")
    shutil.copytree(tmp_path / "here", tmp_path / "there")
    return tmp_path / "here", tmp_path / "there"


SIZES = ("--small", "4000", "--size", "20000")


def test_each_command_says_the_same_with_spark(twins: tuple[Path, Path]) -> None:
    here, there = twins
    for command, *options in (
        ("rewrite-manifests", "--split", "time=2"),
        ("pack", *SIZES),
        ("unpack",),
        ("purge", "/pressure", "--yes"),
        ("gc", "--older-than", "2100-01-01", "--safety-age", "0", "--yes"),
        ("verify", "--decode"),
    ):
        name, arguments = options[:1] if command == "purge" else [], options
        if name:
            arguments = options[1:]
        local = run(command, here, *name, *arguments)
        spark = run(command, there, *name, *arguments, "--spark")
        for said in (local, spark):  # what is new has another name, and another size
            for key in ("snapshot", "commits", "bytes", "bytes_deleted", "peak_memory_bytes"):
                said.pop(key, None)
            if isinstance(said.get("snapshots"), list):
                said["snapshots"] = len(said["snapshots"])
        assert spark == local, command


def test_a_repair_is_not_for_spark(twins: tuple[Path, Path]) -> None:
    answer = CliRunner().invoke(app, ["verify", str(twins[0]), "--repair", "--spark"])
    assert answer.exit_code == 2
