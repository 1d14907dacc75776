"""Files in, answers out: one JVM for each command; mistakes must be noticed before it starts.

More is asked of a running session in tests/spark/test_commands.py.
"""

import csv
import io
from pathlib import Path

import pytest

from tests.cli.days import write_day
from tests.cli.running import Answer, fails, frazil, installed, succeeds


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("files")
    return [write_day(folder, day) for day in range(2)]


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    succeeds("init", tmp_path / "repo")
    return tmp_path / "repo"


@pytest.fixture(scope="module")
def ingested(tmp_path_factory: pytest.TempPathFactory, files: list[Path]) -> tuple[Path, Answer]:
    """A repository named `weather` with two days in it, and what ingest said."""
    repo = tmp_path_factory.mktemp("ingested") / "weather"
    succeeds("init", repo)
    options = ("--concat-dim", "time", "--chunks", "time=12,lat=2", "-m", "two days", "--json")
    answer = installed("ingest", *files, repo, *options)
    assert (answer.code, answer.err) == (0, ""), answer
    return repo, answer


@pytest.fixture(scope="module")
def weather(ingested: tuple[Path, Answer]) -> Path:
    return ingested[0]


@pytest.mark.spark
def test_ingest_makes_one_commit(ingested: tuple[Path, Answer]) -> None:
    repo, answer = ingested
    newest, _initial = succeeds("log", repo, "--json").json
    assert newest["message"] == "two days"
    assert answer.json["snapshot_id"] == newest["snapshot_id"]
    assert (answer.json["files"], answer.json["committed"]) == (2, True)
    (t2m,) = succeeds("ls", repo, "t2m", "--json").json
    assert (t2m["shape"], t2m["num_chunks"]) == ([48, 4], [4, 2])


@pytest.mark.spark
def test_sql_answers(weather: Path) -> None:
    query = "SELECT time, lat, t2m FROM repo WHERE time = '2024-01-02 23:00:00' ORDER BY lat"
    answer = installed("sql", weather, query, "--format", "csv")
    assert (answer.code, answer.err) == (0, ""), answer
    rows = list(csv.DictReader(io.StringIO(answer.out)))
    assert [float(row["lat"]) for row in rows] == [10, 20, 30, 40]
    assert [float(row["t2m"]) for row in rows] == [192, 193, 194, 195]
    assert {row["time"] for row in rows} == {"2024-01-02T23:00:00"}


def test_ingest_of_a_missing_file_leaves_the_branch_alone(empty: Path, tmp_path: Path) -> None:
    assert "nope.nc" in fails("ingest", tmp_path / "nope.nc", empty)[0]
    assert len(succeeds("log", empty, "--json").json) == 1


def test_ingest_needs_a_repository_and_a_branch(
    empty: Path, files: list[Path], tmp_path: Path
) -> None:
    error, hint = fails("ingest", files[0], tmp_path / "nowhere")
    assert error == f"error: there is no repository at {tmp_path / 'nowhere'}"
    assert "frazil init" in hint
    assert "nope" in fails("ingest", files[0], empty, "--branch", "nope")[0]


@pytest.mark.parametrize("chunks", ["time", "time=many", "=3x"])
def test_ingest_wants_chunk_lengths_by_name(empty: Path, files: list[Path], chunks: str) -> None:
    answer = frazil("ingest", files[0], empty, "--chunks", chunks)
    assert answer.code == 2
    assert "is not NAME=LENGTH" in answer.err


@pytest.mark.parametrize("given", ["region", "secret_access_key=hush", "sasToken=hush"])
def test_ingest_takes_no_secrets_from_the_command_line(empty: Path, given: str) -> None:
    answer = frazil("ingest", "s3://bucket/a.nc", empty, "--source-storage", given)
    assert answer.code == 2
    assert "--source-storage" in answer.err
    assert "hush" not in answer.err


def test_ingest_either_appends_or_replaces(empty: Path, files: list[Path]) -> None:
    answer = frazil("ingest", files[0], empty, "--append", "--replace")
    assert answer.code == 2
    assert "exclude each other" in answer.err


def test_ingest_needs_a_source(empty: Path) -> None:
    assert frazil("ingest", empty).code == 2


def test_a_query_of_what_is_not_there(empty: Path, tmp_path: Path) -> None:
    query = "SELECT * FROM repo"
    assert "there is no repository" in fails("sql", tmp_path / "nowhere", query)[0]
    assert "nope" in fails("sql", empty, query, "--tag", "nope")[0]
    assert "ISO time" in fails("sql", empty, query, "--as-of", "yesterday")[0]


def test_an_unknown_format_is_refused(empty: Path) -> None:
    assert frazil("sql", empty, "SELECT * FROM repo", "--format", "xml").code == 2
