"""Small ingests and exports run in the command's own process: no JVM, the same plans."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import frazil
from frazil.cli.failure import describe, is_interrupt
from frazil.cli.views import ingest_view
from frazil.spark import spark_session
from frazil.spark.ingestion import tasks
from tests.cli.days import write_day
from tests.cli.running import Answer, fails, succeeds
from tests.cli.running import frazil as run


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("files")
    return [write_day(folder, day) for day in range(2)]


@pytest.fixture(autouse=True)
def _no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: object) -> None:
        raise AssertionError("a JVM was wanted")

    monkeypatch.setattr(spark_session, "session", refuse)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    succeeds("init", tmp_path / "repo")
    return tmp_path / "repo"


def ingest(repo: Path, *words: object) -> Answer:
    return succeeds("ingest", *words, repo, "--concat-dim", "time", "--chunks", "time=12,lat=2")


def test_files_become_one_commit_without_spark(repo: Path, files: list[Path]) -> None:
    said = ingest(repo, *files)
    assert "to main: 2 files, 10 chunks" in said.out
    shown = succeeds("cat", repo, "/t2m", "--isel", "time=47", "--json").json
    assert shown["values"] == [[192.0, 193.0, 194.0, 195.0]]
    (t2m,) = succeeds("ls", repo, "t2m", "--json").json
    assert (t2m["shape"], t2m["num_chunks"]) == ([48, 4], [4, 2])


def test_append_and_replace(repo: Path, files: list[Path], tmp_path: Path) -> None:
    ingest(repo, files[0])
    succeeds("ingest", files[1], repo, "--append", "--concat-dim", "time")
    with xr.open_dataset(files[1], decode_times=False) as day:
        changed = day.isel(time=slice(0, 2)).load()
    changed["t2m"][:] = -1.0
    changed.to_netcdf(tmp_path / "changed.nc", engine="h5netcdf")
    succeeds("ingest", tmp_path / "changed.nc", repo, "--replace", "--concat-dim", "time")
    values = np.array(succeeds("cat", repo, "/t2m", "--json").json["values"])
    assert (values[24:26] == -1).all()
    assert values[26, 0] == 108
    assert values[23, 3] == 95


def test_region_is_that_of_the_bucket(tmp_path: Path, files: list[Path]) -> None:
    """It was a flag of ingest, so that its value became the repository."""
    lines = fails("ingest", files[0], tmp_path / "nowhere", "--region", "eu-west-1")
    assert lines[0] == f"error: there is no repository at {tmp_path / 'nowhere'}"


def test_virtual_in_one_command(repo: Path, files: list[Path]) -> None:
    folder = f"file://{files[0].parent}/"
    said = succeeds("ingest", *files, repo, "--concat-dim", "time", "--virtual")
    assert "2 virtual chunks" in said.lines[0]
    assert said.lines[1] == f"added a virtual chunk container for {folder}"
    assert said.lines[2].endswith(f"--authorize {folder}=local")
    shown = succeeds(
        "cat", repo, "/t2m", "--isel", "time=47", "--authorize", f"{folder}=local", "--json"
    )
    assert shown.json["values"] == [[192.0, 193.0, 194.0, 195.0]]
    # what is covered is left alone
    config = succeeds("config", "show", repo, "--json").json
    again = succeeds("ingest", files[0], repo, "--group", "/again", "--virtual", "--json").json
    assert (again["virtual_chunks"], again["containers_added"]) == (1, [])
    assert succeeds("config", "show", repo, "--json").json == config


def test_an_unauthorized_chunk_says_what_to_add(repo: Path, files: list[Path]) -> None:
    succeeds("ingest", files[0], repo, "--virtual")
    lines = fails("cat", repo, "/t2m")
    assert lines[1] == f"hint: if you trust it, add --authorize file://{files[0].parent}/=local"


@pytest.mark.parametrize("resume", [True, False])
def test_an_interrupt_says_what_was_done_and_a_new_run_resumes(
    repo: Path, files: list[Path], monkeypatch: pytest.MonkeyPatch, *, resume: bool
) -> None:
    monkeypatch.setattr("frazil.spark.runtime.jobs.MIN_TASK_BYTES", 100)
    succeeds("config", "set", repo, "inline_chunk_threshold_bytes", 0)
    before = succeeds("log", repo, "--json").json
    partitions, calls = tasks.run_partition, list[int]()

    def interrupted(job: tasks.IngestJob, number: int) -> list[tasks.TaskResult]:
        calls.append(number)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return partitions(job, number)

    options = [
        "--concat-dim",
        "time",
        "--chunks",
        "time=12",
        "--resume" if resume else "--no-resume",
    ]
    with monkeypatch.context() as patched:
        patched.setattr(tasks, "run_partition", interrupted)
        answer = run("ingest", *files, repo, *options)
    assert answer.code == 130
    error, hint = answer.err.splitlines()
    assert error == "error: interrupted: nothing was committed, main is as it was"
    assert "run the same command again" in hint
    assert ("not written again" in hint) == resume
    assert succeeds("log", repo, "--json").json == before
    said = succeeds("ingest", *files, repo, *options, "--json").json
    assert (said["reused_chunks"] > 0) == resume


def test_sparks_own_error_after_an_interrupt_is_an_interrupt() -> None:
    """PySpark asks for the job's result while control-C is on its way, which fails."""
    spark_says = RuntimeError("An error occurred while calling o152.getResult")
    spark_says.__context__ = KeyboardInterrupt()
    assert is_interrupt(spark_says)
    assert describe(spark_says).exit_code == 130
    assert describe(RuntimeError("An error occurred")).exit_code == 70


def interrupt(running: subprocess.Popen[str]) -> str:
    """Presses control-C, again if it is not heard: it may come in a callback, which ignores it."""
    for _ in range(20):
        running.send_signal(signal.SIGINT)
        try:
            return running.communicate(timeout=15)[1]
        except subprocess.TimeoutExpired:
            continue
    raise AssertionError("it goes on")


def test_control_c_of_the_installed_command(repo: Path, tmp_path: Path) -> None:
    """A pipe without a writer is a source that is waited for."""
    os.mkfifo(tmp_path / "waiting.csv")
    line = [sys.executable, "-m", "frazil", "write", str(repo), "/a", str(tmp_path / "waiting.csv")]
    with (
        subprocess.Popen(
            line,
            stderr=subprocess.PIPE,
            text=True,
            # A shell starts what is in its background with this signal ignored, tests included.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 -- no threads use it
        ) as running,
        (tmp_path / "waiting.csv").open("w"),  # once it is reading
    ):
        said = interrupt(running)
    assert running.returncode == 130
    assert said.splitlines()[-2] == "error: interrupted"


def test_what_is_large_is_for_spark(
    repo: Path, files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest_view, "LOCAL_BYTES", 10)
    with pytest.raises(AssertionError, match="a JVM was wanted"):
        ingest_large(repo, files[0])
    assert "1 file" in succeeds("ingest", files[0], repo, "--no-spark").out


def ingest_large(repo: Path, file: Path) -> None:
    answer = run("ingest", file, repo)
    assert answer.code == 0, answer.err.partition("unexpected AssertionError: ")[2]


@pytest.mark.parametrize("to", ["zarr", "netcdf"])
def test_exports_need_no_spark(repo: Path, files: list[Path], tmp_path: Path, to: str) -> None:
    ingest(repo, *files)
    target = tmp_path / f"out.{'nc' if to == 'netcdf' else 'zarr'}"
    said = succeeds("export", repo, target, "--format", to, "--json").json
    assert said["objects"] > 0
    opened = xr.open_dataset(target) if to == "netcdf" else xr.open_zarr(target, consolidated=False)
    with opened:
        assert opened["t2m"].values[47].tolist() == [192.0, 193.0, 194.0, 195.0]


def test_the_commit_is_that_of_the_library(repo: Path, files: list[Path]) -> None:
    ingest(repo, *files)
    opened = frazil.Repository.open(frazil.local_filesystem_storage(str(repo)))
    newest = next(iter(opened.ancestry(branch="main")))
    assert json.loads(json.dumps(newest.metadata))["frazil"]["operation"] == "ingest"
