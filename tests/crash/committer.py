"""Processes that commit to one repository, and what they tell about it.

Every committer owns one chunk of the array `a`. It writes a value that nobody else writes,
commits, and only then reports the commit; on a conflict it starts over from a new session.
"""

import importlib
import json
import multiprocessing
import os
from dataclasses import dataclass
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import Any

import numpy as np
import zarr

ENGINE = os.environ.get("FRAZIL_COMPAT_ENGINE", "frazil")
COMMITTERS = 8
S3_ARGUMENTS = "s3.json"  # of s3_storage: the repository is there, and only reports in the folder
CHUNK = 256  # float64 elements: 2 KiB, longer than an inline chunk


@dataclass(frozen=True, slots=True)
class Report:
    committer: int
    value: int
    snapshot: str


def storage(engine: Any, root: Path) -> Any:
    bucket = root / S3_ARGUMENTS
    if bucket.exists():
        return engine.s3_storage(**json.loads(bucket.read_text()))
    return engine.local_filesystem_storage(str(root / "repo"))


def create(root: Path, *, spec_version: int = 2) -> None:
    engine = importlib.import_module(ENGINE)
    repo = engine.Repository.create(storage(engine, root), spec_version=spec_version)
    session = repo.writable_session("main")
    zarr.create_array(
        session.store,
        name="a",
        shape=(COMMITTERS * CHUNK,),
        chunks=(CHUNK,),
        dtype="f8",
        fill_value=0,
        compressors=None,
    )
    session.commit("the array")


def commit_value(engine: Any, repo: Any, committer: int, value: int) -> str:
    """The snapshot in which this committer's chunk holds `value`; retries until it is made."""
    while True:
        session = repo.writable_session("main")
        array = zarr.open_array(session.store, path="a", mode="r+")
        array[committer * CHUNK : (committer + 1) * CHUNK] = value
        try:
            return str(session.commit(f"{committer}:{value}"))
        except engine.ConflictError as error:
            assert error.kind == "commit-conflict"  # noqa: PT017 - we are not in a test


def run(root: Path, committer: int, first_value: int, count: int) -> None:
    """Commits `count` values; reports each with one write, after the commit has returned."""
    engine = importlib.import_module(ENGINE)
    repo = engine.Repository.open(storage(engine, root))
    report = os.open(report_path(root, committer), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for value in range(first_value, first_value + count):
        snapshot = commit_value(engine, repo, committer, value)
        os.write(report, f"{value} {snapshot}\n".encode())
    os.close(report)


def report_path(root: Path, committer: int) -> Path:
    return root / f"report-{committer}"


def reports(root: Path) -> list[Report]:
    return [
        Report(committer, int(value), snapshot)
        for committer in range(COMMITTERS)
        if report_path(root, committer).exists()
        for value, snapshot in map(str.split, report_path(root, committer).read_text().splitlines())
    ]


def processes() -> ForkServerContext:
    """A context whose children start in milliseconds, with everything imported."""
    context = multiprocessing.get_context("forkserver")
    public = f"{ENGINE}.api" if ENGINE == "frazil" else ENGINE  # frazil itself loads lazily
    context.set_forkserver_preload([__name__, public])
    return context


def start(
    context: ForkServerContext, root: Path, committer: int, first_value: int, count: int
) -> ForkServerProcess:
    process = context.Process(target=run, args=(root, committer, first_value, count), daemon=True)
    process.start()
    return process


def assert_history_explains_array(repo: Any, *, samples: int = 12) -> None:
    """At the tip and at earlier snapshots, the array is what the commits so far have written."""
    history = list(repo.ancestry(branch="main"))[::-1][2:]  # after the creation of the array
    expected = np.zeros((COMMITTERS, CHUNK))
    checked = {*np.linspace(0, len(history) - 1, samples).astype(int).tolist(), len(history) - 1}
    for i, info in enumerate(history):
        committer, value = map(int, info.message.split(":"))
        expected[committer] = value
        if i in checked:
            session = repo.readonly_session(snapshot_id=info.id)
            found = np.asarray(zarr.open_array(session.store, path="a", mode="r")[:])
            np.testing.assert_array_equal(found.reshape(expected.shape), expected)
