"""Verifying a repository of 2,000 snapshots and 2,000,000 references with which nothing is wrong.

The reference has no such action, and does not show which objects chunks are in. What its users can
do is to have every file inspected, which shows that it can be read, and to read every chunk of the
tip: one in a hundred of the references that frazil's `verify` looks up.
"""

from pathlib import Path
from types import ModuleType

import numpy as np
import zarr

from benchmarks.maintained_repository import ARRAYS, make
from benchmarks.storages import storage
from benchmarks.timing import Stopwatch

VIRTUAL = 2  # arrays of the repository


def build(engine: ModuleType, root: Path, stopwatch: Stopwatch) -> None:
    """Not measured, and always by frazil."""
    del engine, stopwatch
    make(root, objects="packed")


def verify(engine: ModuleType, root: Path, stopwatch: Stopwatch) -> None:
    repo = engine.Repository.open(storage(engine, root))
    if engine.__name__ == "frazil":
        with stopwatch("verify, or inspect every file and read the tip"):
            report = repo.verify()
        assert report.errors == []
        assert report.refs.native > 0
        return
    with stopwatch("verify, or inspect every file and read the tip"):
        manifests = set[str]()
        for info in repo.ancestry(branch="main"):
            snapshot = repo.inspect_snapshot(info.id)
            manifests |= {each["id"] for each in snapshot["manifests"]}
            repo.inspect_transaction_log(info.id)
        for each in manifests:
            repo.inspect_manifest(each)
        store = repo.readonly_session("main").store
        for number in range(VIRTUAL, ARRAYS):  # what the virtual ones refer to is not there
            array = zarr.open_array(store, path=f"a{number:02}", mode="r")
            assert not np.asarray(array[:]).any()


STAGES = {"build": build, "verify": verify}
