"""Verifying a repository of 2,000 snapshots and 2,000,000 references with which nothing is wrong.

The reference has no such action. The one of its actions that reads every snapshot and every
manifest once is `chunk_storage_stats`, which is measured beside frazil's `verify`; that reads all
transaction logs, too, and lists the storage.
"""

from pathlib import Path
from types import ModuleType

from benchmarks.maintained_repository import make
from benchmarks.storages import storage
from benchmarks.timing import Stopwatch


def build(engine: ModuleType, root: Path, stopwatch: Stopwatch) -> None:
    """Not measured, and always by frazil."""
    del engine, stopwatch
    make(root, objects="packed")


def verify(engine: ModuleType, root: Path, stopwatch: Stopwatch) -> None:
    repo = engine.Repository.open(storage(engine, root))
    if engine.__name__ == "frazil":
        with stopwatch("verify, or chunk_storage_stats"):
            report = repo.verify()
        assert report.errors == []
        assert report.refs.native > 0
        return
    with stopwatch("verify, or chunk_storage_stats"):
        assert repo.chunk_storage_stats().native_bytes > 0


STAGES = {"build": build, "verify": verify}
