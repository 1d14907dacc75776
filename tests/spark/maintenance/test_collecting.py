"""Expiring, collecting and counting by executors: the numbers of the local actions."""

import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import ANY

import numpy as np
import pytest
import zarr
from pyspark.sql import SparkSession

import frazil
from frazil import spark as fs
from frazil.clock import to_datetime
from frazil.format.snapshot import ManifestFiles
from frazil.maintenance.executor import ThreadExecutor
from frazil.maintenance.gc import STAGING
from frazil.maintenance.gc_tasks import GCWork
from frazil.maintenance.inventory import StoredInventory
from frazil.objectstore.local import LocalStore
from frazil.spark.runtime.executor import spark_executor

pytestmark = pytest.mark.spark


def later() -> datetime:
    return datetime.now(UTC) + timedelta(hours=1)


@pytest.fixture(scope="module")
def lived_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten commits, two of them on a branch that was reset; garbage; a tag."""
    path = tmp_path_factory.mktemp("collected") / "repo"
    config = frazil.RepositoryConfig(inline_chunk_threshold_bytes=0)
    repository = frazil.Repository.create(frazil.local_filesystem_storage(str(path)), config)
    for number in range(8):
        _commit(repository, "main", number)
    repository.create_tag("t", repository.lookup_branch("main"))
    tip = repository.lookup_branch("main")
    for number in range(8, 10):
        _commit(repository, "main", number)
    repository.reset_branch("main", tip)
    store = LocalStore(path)
    for letter in "0AZ":
        store.put(f"chunks/{letter}CECHNKREP0F1RSTCMT0", b"garbage")
    return path


def _commit(repository: frazil.Repository, branch: str, number: int) -> None:
    session = repository.writable_session(branch)
    root = zarr.open_group(session.store, mode="a")
    name = f"a{number % 2}"
    if name not in root:
        root.create_array(name, shape=(64,), chunks=(4,), dtype="i4")
    zarr.open_array(session.store, path=name)[number : number + 9] = np.arange(1, 10) + number
    session.commit(f"commit {number}")


def opened(path: Path) -> frazil.Repository:
    return frazil.Repository.open(frazil.local_filesystem_storage(str(path)))


def copied(path: Path, to: Path) -> Path:
    shutil.copytree(path, to)
    return to


def files(path: Path) -> set[str]:
    return {
        str(each.relative_to(path))
        for folder in ("snapshots", "transactions", "manifests", "chunks")
        for each in (path / folder).glob("*")
    }


def test_bytes_are_those_of_the_local_count(spark: SparkSession, lived_in: Path) -> None:
    local, scattered = opened(lived_in).stats(), fs.stats(spark, lived_in)
    assert scattered.stats.total == local.total
    assert scattered.stats.refs == local.refs
    assert sorted(scattered.stats.arrays, key=lambda each: each.name) == sorted(
        local.arrays, key=lambda each: each.name
    )
    assert scattered.stats.references == local.references
    rows = {row["name"]: row["native_bytes"] for row in scattered.owners.collect()}
    assert rows["main"] == local.refs[0].total.native_bytes


@pytest.mark.parametrize("incremental", [False, True])
def test_the_same_files_go(
    spark: SparkSession, lived_in: Path, tmp_path: Path, *, incremental: bool
) -> None:
    left, right = copied(lived_in, tmp_path / "left"), copied(lived_in, tmp_path / "right")
    when, none = later(), timedelta(0)
    foreseen = fs.garbage_collect(
        spark, right, when, dry_run=True, incremental=incremental, safety_age=none
    )
    assert files(right) == files(lived_in)
    done = fs.garbage_collect(spark, right, when, incremental=incremental, safety_age=none)
    local = opened(left).garbage_collect(when, incremental=incremental)
    assert done.summary == foreseen.summary == replace(local, peak_memory_bytes=ANY)
    assert done.summary.peak_memory_bytes < local.peak_memory_bytes  # kept chunks stay away
    assert files(right) == files(left)
    assert local.snapshots_deleted == 2
    assert done.deleted.count() == len(files(lived_in)) - len(files(right))
    assert foreseen.deleted.count() == done.deleted.count()


def test_backups_and_leftovers_go_as_they_do_locally(
    spark: SparkSession, lived_in: Path, tmp_path: Path
) -> None:
    left, right = copied(lived_in, tmp_path / "left"), copied(lived_in, tmp_path / "right")
    when = later()
    for path in (left, right):
        repository = opened(path)
        repository.create_branch(STAGING + "killed", repository.lookup_branch("main"))
        (path / "overwritten" / "repo.99999999999999.VY76P925PRY57WFEK410").write_bytes(b"old")
    backups = len(list((right / "overwritten").iterdir()))  # all: the log has but one page
    options = {"backups_older_than": when, "leftovers": True}
    asked = {**options, "safety_age": timedelta(0)}
    foreseen = fs.garbage_collect(spark, right, when, dry_run=True, **asked)  # type: ignore[arg-type]  # see above
    done = fs.garbage_collect(spark, right, when, **asked)  # type: ignore[arg-type]  # see above
    local = opened(left).garbage_collect(when, **options)  # type: ignore[arg-type]  # see above
    assert done.summary == foreseen.summary == replace(local, peak_memory_bytes=ANY)
    assert done.summary.peak_memory_bytes < local.peak_memory_bytes  # kept chunks stay away
    assert (local.branches_deleted, local.backups_deleted) == (1, backups)
    assert files(right) == files(left)
    assert opened(right).list_branches() == {"main"}


def test_young_files_are_safe_by_default(spark: SparkSession, lived_in: Path) -> None:
    with pytest.raises(frazil.InvalidInputError, match="safety age"):
        fs.garbage_collect(spark, lived_in, datetime.now(UTC))


def test_the_same_snapshots_are_expired(
    spark: SparkSession, lived_in: Path, tmp_path: Path
) -> None:
    left, right = copied(lived_in, tmp_path / "left"), copied(lived_in, tmp_path / "right")
    when = later()
    foreseen = fs.expire_snapshots(spark, right, when, retain_last=3, dry_run=True)
    done = fs.expire_snapshots(spark, right, when, retain_last=3)
    assert done.snapshots == foreseen.snapshots
    assert done.snapshots == opened(left).expire_snapshots(when, retain_last=3)
    messages = {row["message"] for row in done.expired.collect()}
    assert "commit 0" in messages
    assert len(messages) == len(done.snapshots)


def test_a_listing_by_letters_is_the_whole_listing(spark: SparkSession, lived_in: Path) -> None:
    engine = opened(lived_in).engine
    inventory = StoredInventory(engine.store)
    kept, cutoff_us = ManifestFiles.none(), engine.clock() + 1
    _, here = GCWork(ThreadExecutor(engine.files), inventory).unkept_chunks(kept, cutoff_us)
    with spark_executor(spark, engine) as executor:
        _, there = GCWork(executor, inventory).unkept_chunks(kept, cutoff_us)
    assert sorted(here.keys()) == sorted(there.keys())
    assert here.total_bytes == there.total_bytes
    assert to_datetime(int(there.created_at_us.max())) <= datetime.now(UTC)
