"""Writers of version 1 while a repository is brought to version 2: nothing they did is lost."""

from collections.abc import Buffer, Callable
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.engine.refs.version import Branch
from frazil.engine.repository import Repository
from frazil.errors import ConflictError
from frazil.ids import INITIAL_SNAPSHOT, SnapshotId
from frazil.maintenance.migrate.upgrade import finish, plan_finish, plan_upgrade, upgrade
from frazil.objectstore.memory import MemoryStore
from frazil.objectstore.protocol import ALWAYS, Precondition
from frazil.paths import NodePath
from tests.examples_count import scaled
from tests.overtaking import OvertakenStore

GROUP = b'{"zarr_format":3,"node_type":"group"}'


def create() -> MemoryStore:
    store = MemoryStore()
    repository = Repository.create(store, spec_version=1)
    commit(repository, "first")
    repository.create_branch("dev", INITIAL_SNAPSHOT)
    repository.create_tag("old", INITIAL_SNAPSHOT)
    repository.create_tag("gone", INITIAL_SNAPSHOT)
    repository.delete_tag("gone")
    return store


def commit(repository: Repository, name: str, branch: str = "main") -> SnapshotId:
    session = repository.writable_session(branch)
    session.set_node(NodePath(f"/{name}"), GROUP)
    return session.commit(name)


def history_of(store: MemoryStore) -> list[str]:
    return [each.message for each in Repository.open(store).ancestry(Branch("main"))]


@given(st.integers(0, 40))
@settings(max_examples=scaled(40))
def test_a_commit_at_any_moment_is_migrated_or_refused(moment: int) -> None:
    store = OvertakenStore(create())
    theirs = Repository.open(store.inner)
    refused: list[ConflictError] = []

    def overtake() -> None:
        try:
            commit(theirs, "theirs")
        except ConflictError as error:
            refused.append(error)

    store.arm(moment, overtake)
    upgrade(plan_upgrade(Repository.open(store)))
    if not store.was_overtaken:
        overtake()
    assert ("theirs" in history_of(store.inner)) != bool(refused)
    assert Repository.open(store.inner).spec_version == 2


@given(st.integers(0, 40))
@settings(max_examples=scaled(40))
def test_a_migration_at_any_moment_of_a_commit_has_it_or_it_is_refused(moment: int) -> None:
    store = OvertakenStore(create())
    theirs = Repository.open(store)
    refused: list[ConflictError] = []

    def overtake() -> None:
        upgrade(plan_upgrade(Repository.open(store.inner)))

    store.arm(moment, overtake)
    try:
        commit(theirs, "theirs")
    except ConflictError as error:
        refused.append(error)
    if not store.was_overtaken:
        overtake()
    assert ("theirs" in history_of(store.inner)) != bool(refused)


CHANGES: dict[str, Callable[[Repository], None]] = {
    "branch": lambda theirs: theirs.create_branch("new", INITIAL_SNAPSHOT),
    "reset": lambda theirs: theirs.reset_branch("dev", theirs.lookup_branch("main")),
    "delete": lambda theirs: theirs.delete_branch("dev"),
    "tag": lambda theirs: theirs.create_tag("new", INITIAL_SNAPSHOT),
    "untag": lambda theirs: theirs.delete_tag("old"),
}


@given(st.integers(0, 40), st.sampled_from(sorted(CHANGES)))
@settings(max_examples=scaled(40))
def test_a_ref_that_changes_at_any_moment_is_migrated_or_refused(moment: int, what: str) -> None:
    store = OvertakenStore(create())
    theirs = Repository.open(store.inner)
    refused: list[ConflictError] = []

    def overtake() -> None:
        try:
            CHANGES[what](theirs)
        except ConflictError as error:
            refused.append(error)

    store.arm(moment, overtake)
    before = theirs.branches(), theirs.tags()
    migrated = upgrade(plan_upgrade(Repository.open(store)))
    if not refused and store.was_overtaken:
        assert (migrated.branches(), migrated.tags()) != before
        assert (migrated.branches(), migrated.tags()) == (theirs.branches(), theirs.tags())


def write_ref(store: MemoryStore, key: str, snapshot: SnapshotId) -> None:
    """As clients do that know nothing of version 2."""
    store.put(f"refs/{key}/ref.json", f'{{"snapshot":"{snapshot}"}}'.encode())


@pytest.mark.parametrize("key", ["branch.dev", "branch.new", "tag.new", "branch.gone"])
@pytest.mark.parametrize("writes_since", [0, 1, 5])
def test_refs_of_version_1_that_were_written_since_are_not_deleted(
    key: str, writes_since: int
) -> None:
    """Also where they point to what version 2 knows: only what was migrated may go."""
    store = create()
    migrated = upgrade(plan_upgrade(Repository.open(store)))
    for number in range(writes_since):
        commit(migrated, f"later {number}")
    write_ref(store, key, migrated.lookup_branch("main"))
    with pytest.raises(ConflictError, match="since"):
        plan_finish(store)


def test_refs_of_version_1_go_however_version_2_went_on() -> None:
    store = create()
    migrated = upgrade(plan_upgrade(Repository.open(store)))
    commit(migrated, "later", "dev")
    migrated.delete_branch("dev")
    migrated.reset_branch("main", INITIAL_SNAPSHOT)
    assert finish(store, plan_finish(store)) > 0
    assert list(store.list("refs/")) == []


def test_writers_that_do_not_stop_end_a_migration() -> None:
    store = create()
    put, number = store.put, count()

    def overtake(key: str, data: Buffer, *, when: Precondition = ALWAYS) -> str:
        version = put(key, data, when=when)
        if key == "repo":
            write_ref(store, f"branch.new-{next(number)}", INITIAL_SNAPSHOT)
        return version

    plan = plan_upgrade(Repository.open(store))
    store.put = overtake  # type: ignore[method-assign]  # another writes after each of our writes
    with pytest.raises(ConflictError, match="stop its writers"):
        upgrade(plan)
