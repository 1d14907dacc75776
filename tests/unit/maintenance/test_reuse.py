"""Objects of an earlier try are used again while garbage is collected: nothing published is lost.

A collection with the latest cutoff that is allowed, the start of the operation, runs between every
two storage requests. See docs/design/029-reused-work.md.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from itertools import count
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.api import (
    ObjectStoreConfig,
    Repository,
    RepositoryConfig,
    S3Options,
    Storage,
    VirtualChunkContainer,
)
from frazil.engine import repository as engine
from frazil.errors import ConflictError, NotFoundError, ObjectNotFoundError
from frazil.format.repo_info import decode_repo_info
from frazil.maintenance.copying import clone as clone_module
from frazil.maintenance.copying import derived as derived_module
from frazil.maintenance.copying.bundle import plan_import
from frazil.maintenance.copying.clone import clone, plan_clone
from frazil.maintenance.copying.derived import derive, plan_partial
from frazil.maintenance.copying.transfer import transfer
from frazil.maintenance.executor import ThreadExecutor, quiet_files
from frazil.maintenance.migrate.migration import migrate, plan_migration
from frazil.maintenance.repair.repair_store import repair
from frazil.objectstore.memory import MemoryStore
from frazil.objectstore.protocol import ObjectStore
from frazil.objectstore.wrappers import Counting
from frazil.paths import NodePath
from tests.examples_count import scaled
from tests.overtaking import OvertakenStore
from tests.unit.maintenance.between import (
    DAY_US,
    AgingStore,
    Case,
    Clock,
    Collector,
    Watched,
    WatchedDirectory,
    count_requests,
    sweep,
)
from tests.unit.maintenance.local_cluster import LocalCluster

KINDS: dict[str, type[Watched]] = {"bucket": Watched, "directory": WatchedDirectory}


def create(clock: Clock, *, spec_version: int = 2) -> tuple[AgingStore, Repository]:
    store = AgingStore(clock)
    made = engine.Repository.create(store, spec_version=spec_version, clock=clock)
    return store, Repository(made, Storage(store))


def opened(store: ObjectStore) -> Repository:
    clock = store.inner.clock if isinstance(store, Watched) else Clock()
    return Repository(engine.Repository.open(store, clock=clock), Storage(store))


def write(repo: Repository, name: str, value: int) -> None:
    """One commit of an array of two chunks, each an object."""
    session = repo.writable_session("main")
    shape = (2 * 1000,)
    array = zarr.create_array(
        session.store, name=name, shape=shape, chunks=(1000,), dtype="f8", compressors=None
    )
    array[:] = np.arange(2000.0) + value
    session.commit(name)


def require_arrays(*names: str) -> Callable[[ObjectStore], None]:
    def check(store: ObjectStore) -> None:
        group = zarr.open_group(opened(store).readonly_session("main").store, mode="r")
        for value, name in enumerate(names):
            array = group[name]
            assert isinstance(array, zarr.Array)
            np.testing.assert_array_equal(array[:], np.arange(2000.0) + value)

    return check


def copied(clock: Clock, *, spec_version: int = 2) -> tuple[AgingStore, Repository]:
    """A copy of a repository, and its source, which has gone on since."""
    _, source = create(clock, spec_version=spec_version)
    write(source, "a", 0)
    target = AgingStore(clock)
    source.clone_to(Storage(target))
    write(source, "b", 1)
    return target, source


def import_case(tmp_path: Path, *, resumed: bool, spec_version: int = 2) -> Case:
    clock = Clock()
    target, source = copied(clock, spec_version=spec_version)
    source.export_bundle(tmp_path / "bundle")
    if resumed:
        first = plan_import(tmp_path / "bundle", target)
        transfer(ThreadExecutor(first.repository.files), target, first.missing)
    clock.pass_days(2)

    def run(store: ObjectStore) -> None:
        clone(plan_import(tmp_path / "bundle", store))

    return Case(target, run, require_arrays("a", "b"))


def update_case(*, resumed: bool, spec_version: int = 2, on_cluster: bool = False) -> Case:
    clock = Clock()
    target, source = copied(clock, spec_version=spec_version)
    if resumed:
        first = plan_clone(source.engine, target)
        transfer(ThreadExecutor(source.engine.files), target, first.missing)
    clock.pass_days(2)

    def run(store: ObjectStore) -> None:
        files = quiet_files(source.engine)
        executor = LocalCluster(files) if on_cluster else ThreadExecutor(files)
        clone(plan_clone(source.engine, store, executor), executor)

    return Case(target, run, require_arrays("a", "b"))


def partial_case(*, resumed: bool) -> Case:
    """A copy of some paths: metadata is written again in any case, chunks are reused."""
    clock = Clock()
    _, source = create(clock)
    write(source, "a", 0)
    paths = [NodePath("/a"), NodePath("/b")]
    target = AgingStore(clock)
    session = source.writable_session("main")
    zarr.create_group(session.store, path="b")
    session.commit("a group in its place")
    derive(plan_partial(source.engine, target, paths=paths))
    session = source.writable_session("main")
    zarr.open_group(session.store, mode="a").__delitem__("b")
    session.commit("and away")
    write(source, "b", 1)
    if resumed:
        first = plan_partial(source.engine, target, paths=paths)
        transfer(ThreadExecutor(source.engine.files), target, [first.chunks])
    clock.pass_days(2)

    def run(store: ObjectStore) -> None:
        derive(plan_partial(source.engine, store, paths=paths))

    return Case(target, run, require_arrays("a", "b"))


def migrate_case(*, in_place: bool) -> Case:
    """Version 1 in place; or elsewhere, where an earlier try has left the half of it."""
    clock = Clock()
    store, source = create(clock, spec_version=1)
    write(source, "a", 0)
    write(source, "b", 1)
    lost = source.lookup_branch("main")
    write(source, "lost", 2)
    source.reset_branch("main", lost)
    if in_place:
        clock.pass_days(2)

        def upgrade(place: ObjectStore) -> None:
            found = engine.Repository.open(place, clock=clock)
            if found.spec_version == 1:
                migrate(plan_migration(found))

        return Case(store, upgrade, require_arrays("a", "b"))
    target = AgingStore(clock)
    first = plan_migration(source.engine, target=target)
    listings = first.steps.missing  # type: ignore[union-attr]  # a copy
    transfer(ThreadExecutor(source.engine.files), target, listings[:2])
    clock.pass_days(2)

    def run(place: ObjectStore) -> None:
        migrate(plan_migration(source.engine, target=place))

    return Case(target, run, require_arrays("a", "b"))


def repair_case(*, entry: bool) -> Case:
    """A transaction log is gone, or the entry point is damaged; there is garbage besides."""
    clock = Clock()
    store, repo = create(clock)
    write(repo, "a", 0)
    write(repo, "b", 1)
    tip = repo.lookup_branch("main")
    write(repo, "lost", 2)
    repo.reset_branch("main", tip)
    if entry:
        repo.create_tag("now", tip)  # so that the newest backup has all of it
        store.put("repo", b"")
    else:
        store.delete([f"transactions/{tip}"])
    clock.pass_days(2)
    return Case(store, lambda place: repair(place, clock=clock), require_arrays("a", "b"))


CASES: dict[str, Callable[[Path], Case]] = {
    "import": lambda path: import_case(path, resumed=False),
    "import resumed": lambda path: import_case(path, resumed=True),
    "import resumed, version 1": lambda path: import_case(path, resumed=True, spec_version=1),
    "update": lambda _: update_case(resumed=False),
    "update resumed": lambda _: update_case(resumed=True),
    "update resumed, version 1": lambda _: update_case(resumed=True, spec_version=1),
    "update on a cluster": lambda _: update_case(resumed=False, on_cluster=True),
    "update resumed on a cluster": lambda _: update_case(resumed=True, on_cluster=True),
    "partial": lambda _: partial_case(resumed=False),
    "partial resumed": lambda _: partial_case(resumed=True),
    "migrate": lambda _: migrate_case(in_place=True),
    "migrate elsewhere": lambda _: migrate_case(in_place=False),
    "repair": lambda _: repair_case(entry=False),
    "repair the entry point": lambda _: repair_case(entry=True),
}


@cache
def made(name: str) -> Case:
    """Each case is made once: sweeps work on copies of its store."""
    return CASES[name](Path(mkdtemp()))


@cache
def requests_of(name: str, kind: str) -> int:
    return count_requests(made(name), KINDS[kind])


@settings(max_examples=scaled(30))
@given(
    st.sampled_from(sorted(CASES)),
    st.sampled_from(sorted(KINDS)),
    st.floats(0, 1),
    st.one_of(st.just(0.0), st.floats(0, 1)),
)
def test_a_collection_while_objects_are_reused_takes_nothing_that_is_published(
    name: str, kind: str, begins: float, lasts: float
) -> None:
    """It lists between two requests, and deletes there, or between two later ones."""
    count = requests_of(name, kind)
    first = round(begins * count)
    sweep(
        made(name),
        [(first, first + round(lasts * (count - first)))],
        KINDS[kind],
        whole_seconds=True,
    )


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CASES)
def test_a_collection_between_any_two_requests_takes_nothing_that_is_published(
    name: str, kind: str
) -> None:
    moments = range(requests_of(name, kind) + 1)
    assert len(moments) > 5
    for whole_seconds in (False, True):
        outcome = sweep(
            made(name), ((at, at) for at in moments), KINDS[kind], whole_seconds=whole_seconds
        )
        assert "resumed" not in name or outcome.deleted > 0
    pairs = ((first, last) for first in moments[::3] for last in moments[first + 1 :: 3])
    sweep(made(name), pairs, KINDS[kind])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["import resumed", "update resumed", "partial resumed"])
def test_the_sweep_notices_objects_that_are_reused_as_they_are(
    name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A control: without the refresh and the looks after it, something is lost."""
    for module in (clone_module, derived_module):
        monkeypatch.setattr(module, "refresh_listed", lambda *_, **__: [])
        monkeypatch.setattr(module, "lost_files", lambda *_: [])
    count = count_requests(made(name), KINDS[kind])
    moments = ((at, at) for at in range(count // 2, count + 1))
    with pytest.raises((AssertionError, ObjectNotFoundError), match=r"gone|not found"):
        sweep(made(name), moments, KINDS[kind])


@pytest.mark.parametrize("left", [0, 1])
def test_only_what_an_earlier_try_left_is_refreshed(left: int) -> None:
    """Files that the target's refs lead to are not touched, and nothing is if nothing is left."""
    case = update_case(resumed=bool(left))
    case.run(counting := Counting(case.store.fork()))
    for folder in ("chunks/", "manifests/", "transactions/", "snapshots/"):
        assert counting.count("refresh", folder) == left
        assert counting.count("put", folder) == 1 - left


def test_history_that_the_target_lost_meanwhile_is_not_taken_for_granted() -> None:
    """Its branch was reset and its commit collected, after the copy was planned."""
    clock = Clock()
    target, source = copied(clock)
    plan = plan_clone(source.engine, target)
    there = opened(target)
    oldest = list(there.ancestry(branch="main"))[-1].id
    there.reset_branch("main", oldest)
    collector = Collector(Watched(target), cutoff_us=clock.now_us + DAY_US)
    collector.collect()
    assert collector.deleted > 0
    with pytest.raises(ConflictError, match="removed"):
        clone(plan)
    assert opened(target).lookup_branch("main") == oldest
    clone(plan_clone(source.engine, target))
    require_arrays("a", "b")(target)


# ---- Branches and tags ---------------------------------------------------------------------------


def tip_of(store: ObjectStore, branch: str = "main") -> str:
    return opened(store).lookup_branch(branch)


@pytest.mark.parametrize("spec_version", [1, 2])
def test_a_tag_with_the_name_of_a_branch_hides_nothing(spec_version: int) -> None:
    target, source = copied(Clock(), spec_version=spec_version)
    own = opened(target)
    own.create_tag("main", own.lookup_branch("main"))
    write(own, "mine", 7)
    mine = own.lookup_branch("main")
    with pytest.raises(ConflictError, match=mine):
        source.clone_to(Storage(target))
    assert tip_of(target) == mine


@pytest.mark.parametrize("spec_version", [1, 2])
def test_refs_of_the_target_stay_and_those_of_the_source_move_forward(spec_version: int) -> None:
    target, source = copied(Clock(), spec_version=spec_version)
    own = opened(target)
    own.create_tag("release", own.lookup_branch("main"))
    own.create_branch("work", own.lookup_branch("main"))
    session = own.writable_session("work")
    zarr.create_group(session.store, path="of my own")
    mine = session.commit("mine")
    source.create_tag("work", source.lookup_branch("main"))  # other namespaces, other things
    source.create_branch("release", source.lookup_branch("main"))
    keys = {one.key for one in target.list("overwritten/")}
    assert source.clone_to(Storage(target)).updated
    found = opened(target)
    assert found.list_branches() == {"main", "work", "release"}
    assert found.list_tags() == {"work", "release"}
    assert found.lookup_branch("work") == mine
    for name in ("main", "release"):
        assert found.lookup_branch(name) == source.lookup_branch(name)
    assert found.lookup_tag("work") == source.lookup_branch("main")
    require_arrays("a", "b")(target)
    assert found.verify().ok
    if spec_version == 2:
        kinds = [str(update.kind) for update in found.ops_log()][:3]
        assert any("NewCommit" in kind for kind in kinds)
        backups = [
            key for key in (one.key for one in target.list("overwritten/")) if key not in keys
        ]
        infos = [decode_repo_info(target.get(key).data) for key in backups]
        assert len(infos) == 3
        assert all("work" in info.branches for info in infos)
    assert not source.clone_to(Storage(target)).updated


def test_what_is_not_a_fast_forward_changes_nothing() -> None:
    """A branch that was reset at the source, a tag that is elsewhere."""
    target, source = copied(Clock())
    source.clone_to(Storage(target))
    before = bytes(target.get("repo").data)
    history = [info.id for info in source.ancestry(branch="main")]
    source.create_tag("new", history[0])
    source.reset_branch("main", history[1])
    with pytest.raises(ConflictError, match="reset at the source"):
        source.clone_to(Storage(target))
    source.reset_branch("main", history[0])
    opened(target).create_tag("new", history[1])
    before = bytes(target.get("repo").data)
    with pytest.raises(ConflictError, match="tag 'new'"):
        source.clone_to(Storage(target))
    assert bytes(target.get("repo").data) == before


def test_some_refs_leave_the_branch_main_of_the_target_alone(tmp_path: Path) -> None:
    """A copy of other refs than main has a main, since it must: an existing one stays."""
    target, source = copied(Clock())
    before = tip_of(target)
    source.create_branch("dev", source.lookup_branch("main"))
    source.export_bundle(tmp_path / "dev.bundle", refs=["dev"])
    for is_bundle in (False, True):
        place = target.fork()
        if is_bundle:
            Repository.import_bundle(tmp_path / "dev.bundle", Storage(place))
        else:
            source.clone_to(Storage(place), refs=["dev"])
        assert tip_of(place) == before
        assert tip_of(place, "dev") == source.lookup_branch("dev")


def test_containers_that_new_chunks_need_come_along_and_other_settings_stay() -> None:
    target, source = copied(Clock())
    own = Repository.open(Storage(target), RepositoryConfig(inline_chunk_threshold_bytes=99))
    own.save_config()
    config = source.config
    container = VirtualChunkContainer(
        "s3://bucket/of/files/", ObjectStoreConfig.S3Compatible(S3Options())
    )
    config.set_virtual_chunk_container(container)
    config.inline_chunk_threshold_bytes = 5
    Repository.open(source.storage, config).save_config()
    source.clone_to(Storage(target))
    stored = Repository.fetch_config(Storage(target))
    assert stored is not None
    assert stored.inline_chunk_threshold_bytes == 99
    assert set(stored.virtual_chunk_containers or {}) == {container.url_prefix}


def _apart(store: ObjectStore, spec_version: int) -> tuple[Repository, str]:
    """Two branches with an array each; what branch `side` has is nowhere else."""
    config = RepositoryConfig(inline_chunk_threshold_bytes=0)
    repo = Repository.create(Storage(store), config, spec_version=spec_version)
    start = repo.lookup_branch("main")
    repo.create_branch("side", start)
    tips = []
    for branch in ("main", "side"):
        session = repo.writable_session(branch)
        zarr.create_array(session.store, name=branch, data=np.arange(40.0), chunks=(20,))
        tips.append(session.commit(branch))
    return repo, tips[1]


@pytest.mark.parametrize("spec_version", [1, 2])
@pytest.mark.parametrize("how", ["merge", "cherry_pick"])
def test_a_source_that_is_deleted_and_collected_during_a_merge_leaves_nothing_dangling(
    how: str, spec_version: int
) -> None:
    """At every moment: the commit is there and reads, or is refused and nothing changed."""
    outcomes = set()
    for moment in count():
        store = OvertakenStore(MemoryStore())
        repo, side = _apart(store, spec_version)
        cutoff = datetime.now(UTC)

        def collect(store: ObjectStore = store, cutoff: datetime = cutoff) -> None:
            other = Repository.open(Storage(store))
            other.delete_branch("side")
            other.garbage_collect(cutoff)

        store.arm(moment, collect)
        try:
            if how == "merge":
                repo.merge("side", into="main")
            else:
                repo.cherry_pick(side, branch="main")
            outcomes.add("done")
        except (ConflictError, NotFoundError, ObjectNotFoundError) as error:
            outcomes.add(type(error).__name__)
        if not store.was_overtaken:
            break
        again = Repository.open(Storage(store))
        group = zarr.open_group(again.readonly_session("main").store, mode="r")
        for name in group.array_keys():
            values: Any = group[name]
            np.testing.assert_array_equal(values[:], np.arange(40.0))
        assert again.verify().ok
    assert {"done", "ConflictError"} <= outcomes
