"""One run of one stage of a workload, in a process of its own: `-m benchmarks.worker`.

Prints the phases as JSON on the last line of its output.
"""

import dataclasses
import importlib
import json
import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType

from benchmarks.timing import Stopwatch

# Stages with rows of what an engine takes for the first time in a process.
FIRST = {
    ("import_time", "import"),
    ("many_arrays", "start"),
    ("single_elements", "start"),
}


def rehearse(engine: ModuleType) -> None:
    """Does the usual things once: frazil loads modules when they are first used."""
    zarr = importlib.import_module("zarr")  # stages that measure imports do not come here
    repo = engine.Repository.create(engine.in_memory_storage())
    for number in range(2):
        session = repo.writable_session("main")
        array = zarr.create_array(session.store, name=f"a{number}", shape=(9,), dtype="i4")
        array[:] = number + 1
        session.commit("values")
    repo.create_tag("t", repo.lookup_branch("main"))
    repo.create_branch("b", repo.lookup_branch("main"))
    assert len(list(repo.ancestry(branch="main"))) == 3
    assert len(list(repo.ops_log())) == 5
    session = repo.writable_session("main")
    zarr.open_array(session.store, path="a0")[:4] = 7
    other = repo.writable_session("main")
    zarr.open_array(other.store, path="a1")[:] = 8
    other.commit("other")
    session.rebase(engine.ConflictDetector())
    newest = session.commit("own")
    repo.diff(from_snapshot_id=repo.lookup_tag("t"), to_snapshot_id=newest)
    repo.expire_snapshots(datetime.now(UTC) - timedelta(days=1))
    repo.garbage_collect(datetime.now(UTC) - timedelta(days=1), dry_run=True)


def main(workload: str, stage: str, engine: str, directory: str) -> None:
    os.environ.setdefault("ICECHUNK_NO_LOGS", "1")
    module = importlib.import_module(f"benchmarks.{workload}")
    package = importlib.import_module(engine)
    assert package.Repository  # frazil loads its classes on first use; import_time measures that
    if (workload, stage) not in FIRST:
        rehearse(package)
    stopwatch = Stopwatch()
    module.STAGES[stage](package, Path(directory), stopwatch)
    phases = {name: dataclasses.asdict(phase) for name, phase in stopwatch.phases.items()}
    print(json.dumps(phases), flush=True)
    # The reference's threads have been seen to crash while the interpreter shuts down.
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
