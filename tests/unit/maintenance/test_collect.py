"""Collecting garbage: failures, races, and what frazil adds to the reference."""

import csv
from collections.abc import Buffer, Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import zarr
from pyarrow import parquet

import frazil
from frazil.clock import from_datetime, to_datetime
from frazil.errors import PreconditionFailedError, StorageError
from frazil.ids import ChunkId
from frazil.maintenance.executor import ThreadExecutor
from frazil.maintenance.gc import STAGING, GCRequest, collect_garbage, plan_gc
from frazil.maintenance.inventory import (
    DeleteLimits,
    FileInventory,
    FileKind,
    Listing,
    StoredInventory,
    delete_files,
    list_files,
)
from frazil.maintenance.migration_journal import write_journal
from frazil.objectstore.local import LocalStore
from frazil.objectstore.memory import MemoryStore
from frazil.objectstore.protocol import ALWAYS, ObjectInfo, ObjectStore, Precondition
from frazil.objectstore.wrappers import Verb
from frazil.spark.pipelines.rechunk import PREFIX
from frazil.testing.hooked_store import HookedStore
from tests.unit.maintenance.repositories import Kept

SECOND_US = 1_000_000
VERSIONS = pytest.mark.parametrize("version", [1, 2])


class Failing(HookedStore[MemoryStore]):
    """Deleting below a prefix fails, a few times or always."""

    def __init__(self, below: str, *, times: int = 1 << 30, kind: str | None = None) -> None:
        super().__init__(MemoryStore(), before=self._fail)
        self.below, self.times, self.kind = below, times, kind

    def _fail(self, verb: Verb, key: str) -> None:
        if verb == "delete" and self.times > 0 and key.startswith(self.below):
            self.times -= 1
            raise StorageError("the disk is on fire", kind=self.kind)


def with_garbage(version: int = 2) -> Kept:
    """Of six commits three are no longer reachable; one chunk is in both."""
    kept = Kept(version)
    for at in range(3):
        kept.commit(f"m{at}", at=at)
    tip = kept.repository.lookup_branch("main")
    for at in range(3):
        kept.commit(f"lost{at}", at=at + 2)
    kept.repository.reset_branch("main", tip)
    return kept


def on(store: ObjectStore, kept: Kept) -> frazil.Repository:
    """The same repository in another store."""
    for info in kept.store.list():
        store.put(info.key, kept.store.get(info.key).data)
    engine = type(kept.repository.engine).open(store)
    return frazil.Repository(engine, frazil.in_memory_storage())


@VERSIONS
def test_what_nothing_leads_to_goes_and_the_rest_can_be_read(version: int) -> None:
    kept = with_garbage(version)
    before = kept.read()
    summary = kept.repository.garbage_collect(kept.later(days=1))
    assert summary.snapshots_deleted == summary.transaction_logs_deleted == 3
    assert summary.chunks_deleted == summary.manifests_deleted == 3
    assert summary.peak_memory_bytes > 0
    assert len(kept.keys("chunks/")) == 3
    assert kept.read() == before
    again = kept.repository.garbage_collect(kept.later(days=1))
    assert again.bytes_deleted == again.snapshots_deleted == 0


@VERSIONS
def test_incrementally_the_same_goes_without_listing_chunks(version: int) -> None:
    kept, whole = with_garbage(version), with_garbage(version)
    kept.store.put("chunks/1CECHNKREP0F1RSTCMT0", b"an orphan of a job that died")
    summary = kept.repository.garbage_collect(kept.later(days=1), incremental=True)
    expected = whole.repository.garbage_collect(whole.later(days=1))
    for name in ("snapshots", "transaction_logs", "manifests", "chunks"):
        assert getattr(summary, f"{name}_deleted") == getattr(expected, f"{name}_deleted")
    assert kept.read() == whole.read()
    assert "chunks/1CECHNKREP0F1RSTCMT0" in kept.keys("chunks/")
    orphans = kept.repository.garbage_collect(kept.later(days=1))
    assert (orphans.chunks_deleted, orphans.snapshots_deleted) == (1, 0)


class Delaying(MemoryStore):
    """Delays the swap of a writer that dies: the request is on its way, and arrives later."""

    def __init__(self) -> None:
        super().__init__()
        self.delays, self.sent = False, list[Callable[[], object]]()

    def put(self, key: str, data: Buffer, *, when: Precondition = ALWAYS) -> str:
        if self.delays and key == "repo":
            content = bytes(data)
            self.sent.append(lambda: MemoryStore.put(self, key, content, when=when))
            raise StorageError("the process was killed")
        return super().put(key, data, when=when)


@pytest.mark.parametrize("arrives_first", [True, False])
def test_a_late_swap_of_a_dead_writer_never_refers_to_what_was_collected(
    *, arrives_first: bool
) -> None:
    """A collection swaps even if it drops no snapshot: the late request then fails.

    proofs/Commit.tla has the bug "collection does not swap".
    """
    store = Delaying()
    config = frazil.RepositoryConfig(inline_chunk_threshold_bytes=0)
    repo = frazil.Repository.create(frazil.Storage(store), config=config)
    session = repo.writable_session("main")
    zarr.create_array(session.store, name="a", shape=4, chunks=1, dtype="i4")[:] = 7
    store.delays = True
    with pytest.raises(StorageError):
        session.commit("died while it swapped")
    store.delays = False
    (arrive,) = store.sent
    if arrives_first:
        arrive()
    engine, executor = repo.engine, ThreadExecutor(repo.engine.files)
    request = GCRequest(cutoff_us=engine.clock() + SECOND_US)
    plan = plan_gc(engine, request, executor)
    assert len(plan.dropped) == 0
    collect_garbage(engine, plan, executor)
    if arrives_first:
        values = zarr.open_array(repo.readonly_session("main").store, path="a", mode="r")[:]
        assert np.asarray(values).tolist() == [7, 7, 7, 7]
    else:
        with pytest.raises(PreconditionFailedError):
            arrive()
        assert list(store.list("chunks/")) == []


def test_what_is_as_young_as_the_cutoff_stays() -> None:
    kept = with_garbage()
    oldest = min(info.modified_at_us for info in kept.store.list("chunks/"))
    assert kept.repository.garbage_collect(to_datetime(oldest)).chunks_deleted == 0


class WholeSeconds(MemoryStore):
    """Tells times as S3 does, cut off."""

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        for info in super().list(prefix):
            yield replace(info, modified_at_us=info.modified_at_us // SECOND_US * SECOND_US)


def test_a_chunk_of_the_second_in_which_a_session_began_stays() -> None:
    store = WholeSeconds()
    repo = frazil.Repository.create(frazil.Storage(store))
    store.put(f"chunks/{ChunkId.random()}", b"of a session that is not committed yet")
    (told,) = {info.modified_at_us for info in store.list("chunks/")}
    for late_us in (1, SECOND_US - 1):
        assert repo.garbage_collect(to_datetime(told + late_us)).chunks_deleted == 0
    assert repo.garbage_collect(to_datetime(told + SECOND_US)).chunks_deleted == 1


def test_a_cutoff_that_a_session_may_be_older_than_is_refused() -> None:
    kept = with_garbage()
    day = timedelta(days=1)
    with pytest.raises(frazil.InvalidInputError, match="smaller safety age"):
        kept.repository.garbage_collect(kept.clock.now, safety_age=day)
    with pytest.raises(frazil.InvalidInputError, match="still open"):
        kept.repository.garbage_collect(kept.clock.now + day, safety_age=timedelta(seconds=1))
    assert len(kept.keys("snapshots/")) == 7
    old = kept.clock.now
    kept.later(days=2)
    assert kept.repository.garbage_collect(old, safety_age=day).snapshots_deleted == 3


@VERSIONS
def test_a_file_that_cannot_be_read_stops_everything(version: int) -> None:
    kept = with_garbage(version)
    needed = kept.repository.list_manifest_files(kept.repository.lookup_branch("main"))[0].id
    kept.store.delete([f"manifests/{needed}"])
    before = kept.keys("")
    with pytest.raises(frazil.IcechunkError, match=needed):
        kept.repository.garbage_collect(kept.later(days=1))
    assert kept.keys("") == before


def test_kinds_that_come_after_a_failure_are_left_for_the_next_time() -> None:
    repository = on(store := Failing("transactions/", times=1), with_garbage())
    when = to_datetime(repository.engine.clock() + 10**9)
    summary = repository.garbage_collect(when)
    assert summary.snapshots_deleted == summary.objects_failed_to_delete == 3
    assert summary.skipped_phases == ["manifests", "chunks"]
    assert summary.delete_errors == ["the disk is on fire"]
    assert summary.chunks_deleted == 0
    assert store.times == 0
    after = repository.garbage_collect(when)
    assert (after.transaction_logs_deleted, after.chunks_deleted) == (3, 3)
    assert after.skipped_phases == []


def test_too_many_failures_in_a_row_are_an_error() -> None:
    repository = on(Failing("chunks/"), with_garbage())
    when = to_datetime(repository.engine.clock() + 10**9)
    with pytest.raises(frazil.ConflictError) as caught:
        repository.garbage_collect(when, max_consecutive_delete_failures=1)
    assert caught.value.kind == "gc-deletes-failing"


def test_a_store_that_is_too_busy_is_asked_again_later() -> None:
    store, pauses = Failing("chunks/", times=3, kind="throttled"), list[float]()
    on(store, with_garbage())
    listing = list_files(StoredInventory(store), FileKind.CHUNK)
    done = delete_files(store, listing, DeleteLimits(), sleep=pauses.append)
    assert (done.objects, done.failed, done.throttled) == (6, 0, 3)
    assert len(pauses) == 3


class Remembering(MemoryStore):
    """Knows in which order objects went."""

    gone: tuple[str, ...] = ()

    def delete(self, keys: Iterable[str]) -> int:
        self.gone += (keys := tuple(keys))
        return super().delete(keys)


def test_the_oldest_files_go_first_whatever_they_are_called() -> None:
    store, ages = Remembering(), np.random.default_rng(3).permutation(2500)
    ids = np.arange(2500 * 3, dtype=">u4").view(np.uint8).reshape(-1, 12)
    listing = Listing(FileKind.CHUNK, ids, np.ones(2500, np.uint64), ages)
    done = delete_files(store, listing, DeleteLimits(concurrent=1))
    assert (done.objects, done.size_bytes) == (2500, 2500)
    assert list(store.gone) == listing.take(np.argsort(ages)).keys()


@dataclass(frozen=True, slots=True)
class Disturbed(StoredInventory):
    """Another client acts when it is known what to keep, and before the rest is listed."""

    disturb: list[Callable[[], None]] = field(default_factory=list)

    def pieces(self, kind: FileKind) -> Iterator[Listing]:
        while self.disturb and kind is not FileKind.SNAPSHOT:
            self.disturb.pop()()
        return StoredInventory.pieces(self, kind)


def _unreachable(kept: Kept) -> set[str]:
    reached = {each.id for each in kept.repository.ancestry(branch="main")}
    return {key[10:] for key in kept.keys("snapshots/")} - reached


def _act(kept: Kept, action: str, lost: str) -> None:
    match action:
        case "branch":
            kept.repository.create_branch("rescued", lost)
        case "tag":
            kept.repository.create_tag("rescued", lost)
        case "commit":
            kept.commit("in between", at=7)


@VERSIONS
@pytest.mark.parametrize("action", ["branch", "tag", "commit"])
def test_what_somebody_needs_since_the_plan_was_made_stays(version: int, action: str) -> None:
    kept = with_garbage(version)
    lost = min(_unreachable(kept))
    engine = kept.repository.engine
    inventory = Disturbed(kept.store, disturb=[lambda: _act(kept, action, lost)])
    executor = ThreadExecutor(engine.files)
    # Everything that is written meanwhile looks old enough to go.
    cutoff = kept.clock.now + timedelta(days=1)
    request = GCRequest(cutoff_us=from_datetime(cutoff))
    collect_garbage(engine, plan_gc(engine, request, executor, inventory=inventory), executor)
    assert not inventory.disturb
    values = kept.read()
    assert (values[7] == len("in between")) == (action == "commit")
    if action != "commit":
        name: Any = {action: "rescued"}
        store = kept.repository.readonly_session(**name).store
        assert zarr.open_array(store, path="a", mode="r")[2] == len("lost0")


def inventory_rows(kept: Kept, prefix: str) -> list[tuple[str, int, str]]:
    return [
        (prefix + info.key, info.size_bytes, to_datetime(info.modified_at_us).isoformat())
        for info in kept.store.list()
    ]


@pytest.mark.parametrize("form", ["csv", "headless", "parquet"])
def test_a_listing_in_files_serves_as_well_as_the_store(form: str, tmp_path: Path) -> None:
    kept, prefix = with_garbage(), "bucket/of/mine/"
    rows = inventory_rows(kept, prefix)
    path = tmp_path / f"listing.{'parquet' if form == 'parquet' else 'csv'}"
    if form == "parquet":
        names = ("key", "size", "last_modified_date")
        columns = [list(each) for each in zip(*rows, strict=True)]
        parquet.write_table(pa.table(columns, names=names), path)
    else:
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            if form == "csv":
                writer.writerow(["Key", "Size", "Last_Modified"])
            writer.writerows(rows)
    given = ["key", "size", "last_modified"] if form == "headless" else None
    inventory = FileInventory.of(tmp_path, prefix=prefix, columns=given)
    young = kept.commit("after the listing", at=6)
    foreseen = kept.repository.garbage_collect(kept.later(days=1), dry_run=True)
    summary = kept.repository.garbage_collect(kept.clock.now, inventory=inventory)
    assert summary.bytes_deleted == foreseen.bytes_deleted
    assert summary.chunks_deleted == 3
    assert kept.repository.lookup_branch("main") == young
    assert kept.read()[6] == len("after the listing")


def test_a_listing_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "listing.csv"
    path.write_text("key,size,last_modified\nother/thing,1,2024-01-01\n")
    with pytest.raises(frazil.InvalidInputError, match="give the prefix"):
        Kept().repository.garbage_collect(Kept().clock.now, inventory=path)
    path.write_text("what,ever\nother,1\n")
    with pytest.raises(frazil.InvalidInputError, match="no column for key and size and time"):
        FileInventory.of(path)


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_old_backups_go_but_for_the_pages_of_the_ops_log(size: int) -> None:
    kept = Kept()
    config = frazil.RepositoryConfig(num_updates_per_repo_info_file=size)
    kept.repository = kept.repository.reopen(config)
    expected = [each.kind for each in kept.repository.ops_log()]
    some = np.random.default_rng(size)
    for at in range(40):
        if some.random() < 0.2:
            count = len(kept.keys("overwritten/"))
            when = kept.later(days=1)
            foreseen = kept.repository.garbage_collect(when, backups_older_than=when, dry_run=True)
            summary = kept.repository.garbage_collect(when, backups_older_than=when)
            assert foreseen.backups_deleted == summary.backups_deleted
            left = len(kept.keys("overwritten/"))
            assert left - (count - summary.backups_deleted) in {1, 2}  # two if pages were merged
            assert left <= 2
            expected.insert(0, frazil.UpdateType.GCRan())
        else:
            kept.commit(f"m{at}")
            expected.insert(0, next(iter(kept.repository.ops_log())).kind)
        assert [each.kind for each in kept.repository.ops_log()] == expected


def test_backups_that_the_ops_log_came_to_need_meanwhile_stay() -> None:
    """Commits between plan and collection move the log on to other pages."""
    kept = Kept()
    config = frazil.RepositoryConfig(num_updates_per_repo_info_file=3)
    kept.repository = kept.repository.reopen(config)
    for at in range(20):
        kept.commit(f"m{at}")
    when = kept.later(days=1)
    request = GCRequest(cutoff_us=from_datetime(when), backups_us=from_datetime(when))
    engine = kept.repository.engine
    plan = plan_gc(engine, request, ThreadExecutor(engine.files))
    kept.commit("meanwhile")
    log = [each.kind for each in kept.repository.ops_log()]
    collect_garbage(engine, plan, ThreadExecutor(engine.files))
    assert [each.kind for each in kept.repository.ops_log()] == [frazil.UpdateType.GCRan(), *log]


@VERSIONS
def test_branches_of_jobs_that_died_go_and_those_of_running_ones_stay(version: int) -> None:
    kept = Kept(version)
    kept.commit("m0")
    kept.repository.create_branch(f"{STAGING}dead", kept.repository.lookup_branch("main"))
    kept.commit("half done", branch=f"{STAGING}dead")
    when = kept.later(days=1)
    kept.later(days=1)
    kept.repository.create_branch(f"{STAGING}alive", kept.repository.lookup_branch("main"))
    foreseen = kept.repository.garbage_collect(when, leftovers=True, dry_run=True)
    assert (foreseen.branches_deleted, foreseen.snapshots_deleted) == (1, 1)
    summary = kept.repository.garbage_collect(when, leftovers=True)
    assert (summary.branches_deleted, summary.snapshots_deleted) == (1, 1)
    assert kept.repository.list_branches() == {"main", f"{STAGING}alive"}


def test_jobs_and_maintenance_agree_on_the_names_of_such_branches() -> None:
    assert STAGING == PREFIX


def test_temporary_files_of_dead_writers_go(tmp_path: Path) -> None:
    repository = frazil.Repository.create(frazil.local_filesystem_storage(str(tmp_path / "r")))
    store = repository.engine.store
    assert isinstance(store, LocalStore)
    left = tmp_path / "r" / "chunks" / ".frazil-tmp#00000000000000000001"
    left.parent.mkdir(exist_ok=True)
    left.write_bytes(b"half")
    now = to_datetime(repository.engine.clock())
    kept = repository.garbage_collect(now - timedelta(hours=1), leftovers=True)
    assert kept.temporary_files_deleted == 0
    assert left.exists()
    gone = repository.garbage_collect(now + timedelta(hours=1), leftovers=True)
    assert gone.temporary_files_deleted == 1
    assert not left.exists()


def test_progress_is_told() -> None:
    kept, told = with_garbage(), list[tuple[str, int, int]]()
    kept.repository.garbage_collect(kept.later(days=1), progress=lambda *each: told.append(each))
    assert {what for what, _, _ in told} >= {"reading snapshots", "reading manifests"}


async def test_collecting_can_be_awaited() -> None:
    kept = with_garbage()
    summary = await kept.repository.garbage_collect_async(kept.later(days=1))
    assert summary.snapshots_deleted == 3


def test_old_files_of_a_migration_stay_until_it_is_confirmed() -> None:
    kept = with_garbage()
    write_journal(kept.store, "A2e", ["snapshots/1CECHNKREP0F1RSTCMT0"])
    with pytest.raises(frazil.SessionStateError, match="confirm the migration first"):
        kept.repository.garbage_collect(kept.later(days=1))
