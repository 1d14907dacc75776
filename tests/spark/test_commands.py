"""`frazil ingest` and `frazil sql` in the session of the tests: a JVM for each would take long."""

from pathlib import Path

import pytest

import frazil
from tests.cli.days import write_day
from tests.cli.running import fails, succeeds

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("files")
    return [write_day(folder, day) for day in range(2)]


@pytest.fixture
def weather(tmp_path: Path, files: list[Path]) -> Path:
    """A repository with one day in it."""
    repo = tmp_path / "weather"
    succeeds("init", repo)
    options = ("--concat-dim", "time", "--chunks", "time=12,lat=2", "--spark")
    said = succeeds("ingest", files[0], repo, *options)
    assert "to main: 1 file," in said.out
    return repo


def test_append_makes_the_arrays_longer(weather: Path, files: list[Path]) -> None:
    succeeds("branch", "create", weather, "longer")
    options = ["--concat-dim", "time", "--append", "--branch", "longer", "--spark"]
    options += ["--idempotency-key", "k"]
    assert "to longer: 1 file," in succeeds("ingest", files[1], weather, *options).out
    again = succeeds("ingest", files[1], weather, *options).out
    assert again.startswith("nothing to do: ")
    (t2m,) = succeeds("ls", weather, "t2m", "--branch", "longer", "--json").json
    assert t2m["shape"] == [48, 4]
    (before,) = succeeds("ls", weather, "t2m", "--json").json
    assert before["shape"] == [24, 4]


def test_explain_counts_chunks_without_running_anything(weather: Path) -> None:
    for table in ("repo", weather.name):
        query = f"SELECT max(t2m) FROM `{table}` WHERE time >= '2024-01-01 12:00:00' AND lat > 25"  # noqa: S608 -- a query is what is tested
        (told,) = succeeds("sql", weather, query, "--explain").lines
        assert told.endswith(": read 1 of 4 chunks, 24 of 96 rows")
    assert succeeds("sql", weather, "SELECT 1", "--explain").lines == ["reads no chunks"]
    assert "/nope" in fails("sql", weather, "SELECT * FROM repo.nope")[0]
    assert "PARSE_SYNTAX_ERROR" in fails("sql", weather, "SELECT FROM WHERE (", "--explain")[0]


def test_what_spark_refuses_is_one_line(weather: Path) -> None:
    error, hint = fails("sql", weather, "SELECT nope FROM repo")
    assert "nope" in error
    assert "--debug" in hint


def test_virtual_ingest_skips_what_is_damaged_and_says_so(
    tmp_path: Path, files: list[Path]
) -> None:
    folder = files[0].parent
    config = frazil.RepositoryConfig.default()
    store = frazil.local_filesystem_store(str(folder))
    config.set_virtual_chunk_container(frazil.VirtualChunkContainer(f"file://{folder}/", store))
    storage = frazil.local_filesystem_storage(str(tmp_path / "virtual"))
    frazil.Repository.create(storage, config).save_config()
    bad = tmp_path / "bad.nc"
    bad.write_bytes(b"rubbish")
    options = ("--combine", "coords", "--virtual", "--on-error", "skip", "--json", "--spark")

    said = succeeds("ingest", *files, bad, tmp_path / "virtual", *options).json

    assert said["committed"]
    assert said["files"] == 2
    assert said["virtual_chunks"] > 0
    assert [Path(one["file"]).name for one in said["skipped"]] == ["bad.nc"]
