"""A writer that commits all the time, and collections of garbage all the time.

Run as a program: `collecting.py DIRECTORY SECONDS`: the writer, which prints what it committed.
"""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import zarr

import frazil

SIZE = 24  # chunks of the array
FEWEST = 8  # commits: a machine with other work may take longer for them than it was given
COARSE = timedelta(milliseconds=50)  # times of files lag behind the clock


@dataclass(slots=True)
class Written:
    """What the array must hold: the last value of each chunk that was committed."""

    values: list[int] = field(default_factory=lambda: [0] * SIZE)
    commits: int = 0


def create(path: Path) -> frazil.Repository:
    config = frazil.RepositoryConfig(inline_chunk_threshold_bytes=0)
    repository = frazil.Repository.create(frazil.local_filesystem_storage(str(path)), config)
    session = repository.writable_session("main")
    zarr.create_array(session.store, name="a", shape=(SIZE * 8,), chunks=(8,), dtype="i8")
    session.commit("array")
    return repository


def write(path: Path, seconds: float) -> Written:
    """Commits, some of them in vain, until the time is over and there are some."""
    repository = frazil.Repository.open(frazil.local_filesystem_storage(str(path)))
    written, until = Written(), time.monotonic() + seconds
    while time.monotonic() < until or written.commits < FEWEST:
        number = written.commits + 1
        chunk = number % SIZE
        _tell_start(path)
        session = repository.writable_session("main")
        zarr.open_array(session.store, path="a")[chunk * 8 : chunk * 8 + 8] = number
        if number % 5 == 0:  # a session that is given up: its chunk is garbage
            session.discard_changes()
            zarr.open_array(session.store, path="a")[chunk * 8 : chunk * 8 + 8] = number
        session.commit(f"commit {number}")
        written.values[chunk] = number
        written.commits = number
        if number % 7 == 0:  # a commit that nobody refers to any more
            tip = repository.lookup_branch("main")
            lost = repository.writable_session("main")
            zarr.open_array(lost.store, path="a")[:8] = -1
            lost.commit("lost")
            repository.reset_branch("main", tip)
    return written


def _tell_start(path: Path) -> None:
    """No session that is open from now on is older than this."""
    new = path.with_suffix(".new")
    new.write_text((datetime.now(UTC) - COARSE).isoformat())
    new.replace(path.with_suffix(".started"))


def collect(path: Path, goes_on: Callable[[], bool]) -> dict[str, int]:
    """One collection after another, each of all that is older than any session."""
    repository = frazil.Repository.open(frazil.local_filesystem_storage(str(path)))
    done = {"collections": 0, "snapshots": 0, "chunks": 0}
    started = path.with_suffix(".started")
    while goes_on():
        if not started.exists():
            time.sleep(0.1)
            continue
        when = datetime.fromisoformat(started.read_text())
        if done["collections"] % 3 == 0:
            repository.expire_snapshots(when, retain_last=3)
        summary = repository.garbage_collect(when, incremental=done["collections"] % 2 == 1)
        assert not summary.objects_failed_to_delete, summary
        done["collections"] += 1
        done["snapshots"] += summary.snapshots_deleted
        done["chunks"] += summary.chunks_deleted
    return done


def read(path: Path) -> list[int]:
    repository = frazil.Repository.open(frazil.local_filesystem_storage(str(path)))
    array = zarr.open_array(repository.readonly_session("main").store, path="a", mode="r")
    values = np.asarray(array[:]).reshape(SIZE, 8)
    assert (values == values[:, :1]).all()
    found: list[int] = values[:, 0].tolist()
    return found


def main() -> None:
    written = write(Path(sys.argv[1]), float(sys.argv[2]))
    sys.stdout.write(" ".join(map(str, [written.commits, *written.values])))


if __name__ == "__main__":
    main()
