"""Maintenance of a repository of 2,000 snapshots and 2,000,000 references."""

import shutil
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks.maintained_repository import make, make_version_1
from benchmarks.storages import storage
from benchmarks.timing import Stopwatch

# What frazil loads when it is first asked for maintenance; the reference, when it is imported.
LOADED = ("expire", "gc", "migrate.upgrade", "stats")


def build(engine: ModuleType, root: Path, stopwatch: Stopwatch) -> None:
    """Not measured, and always by frazil."""
    del engine, stopwatch
    make(root)
    make_version_1(root.with_name("version 1"))


def stats(engine: ModuleType, root: Path, stopwatch: Stopwatch) -> None:
    repo = _opened(engine, root)
    with stopwatch("chunk_storage_stats"):
        assert repo.chunk_storage_stats().native_bytes > 0


def dry_run(engine: ModuleType, root: Path, stopwatch: Stopwatch) -> None:
    repo = _opened(engine, root)
    with stopwatch("garbage_collect, dry run"):
        assert repo.garbage_collect(_later(), dry_run=True).chunks_deleted > 0


def collect(engine: ModuleType, root: Path, stopwatch: Stopwatch) -> None:
    copy = root.with_name("collected")
    shutil.copytree(root, copy)
    repo = _opened(engine, copy)
    with stopwatch("garbage_collect"):
        assert repo.garbage_collect(_later()).chunks_deleted > 0
    shutil.rmtree(copy)


def expire(engine: ModuleType, root: Path, stopwatch: Stopwatch) -> None:
    repo = _opened(engine, root)
    with stopwatch("expire_snapshots"):
        assert len(repo.expire_snapshots(_later())) > 0
    with stopwatch("garbage_collect, after expiring"):
        assert repo.garbage_collect(_later()).snapshots_deleted > 0


def upgrade(engine: ModuleType, root: Path, stopwatch: Stopwatch) -> None:
    repo = _opened(engine, root.with_name("version 1"))
    with stopwatch("version 1 to version 2, in place"):
        engine.upgrade_icechunk_repository(repo, dry_run=False)


def _opened(engine: ModuleType, root: Path) -> Any:
    """Measures with everything loaded, which takes frazil about 60 ms once in a process."""
    if engine.__name__ == "frazil":
        for name in LOADED:
            import_module(f"frazil.maintenance.{name}")
    return engine.Repository.open(storage(engine, root))


def _later() -> datetime:
    return datetime.now(UTC) + timedelta(hours=1)


STAGES = {
    "build": build,
    "stats": stats,
    "dry_run": dry_run,
    "collect": collect,
    "expire": expire,
    "upgrade": upgrade,
}
