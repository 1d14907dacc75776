"""What can be put right without guessing is, and what was there before is kept."""

from collections.abc import Buffer
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.clock import system_clock
from frazil.engine.files.object_keys import OVERWRITTEN, REPO_INFO, TRANSACTIONS
from frazil.engine.refs.version import Branch
from frazil.engine.repository import Repository
from frazil.errors import (
    ConflictError,
    PreconditionFailedError,
    ReadOnlyError,
)
from frazil.ids import INITIAL_SNAPSHOT, SnapshotId
from frazil.maintenance.repair.repair_steps import execute_steps
from frazil.maintenance.repair.repair_store import plan_repair, repair
from frazil.maintenance.verify.problems import KINDS
from frazil.maintenance.verify.stored_objects import DAMAGED
from frazil.maintenance.verify.verify_store import verify
from frazil.objectstore.memory import MemoryStore
from frazil.objectstore.protocol import ALWAYS, ObjectStore, Precondition
from frazil.objectstore.wrappers import ReadOnly
from frazil.paths import ROOT, NodePath
from tests.examples_count import scaled
from tests.overtaking import OvertakenStore
from tests.verify.damage import Damage, copied, healthy, keys, removed, tip_key, truncated
from tests.verify.damages import DAMAGES

# The last update is lost with the repo info, as it is not in the backups
RESTORED = {"repository-missing", "repo-info-unreadable", "ref-dangling"}
REPAIRED = [
    damage
    for damage in DAMAGES
    if KINDS[damage.kind].repair and not (damage.spec_version == 1 and "main" in damage.name)
]


@cache
def once(spec_version: int) -> MemoryStore:
    return healthy(spec_version)


def shown(store: ObjectStore) -> dict[str, object]:
    """All that a reader sees."""
    repository = Repository.open(store)
    found: dict[str, object] = {
        "branches": {name: str(at) for name, at in repository.branches().items()},
        "tags": {name: str(at) for name, at in repository.tags().items()},
    }
    records = list(repository.ancestry(Branch("main")))
    found["history"] = [(str(one.id), one.message, one.metadata) for one in records]
    found["diff"] = repr(repository.diff(INITIAL_SNAPSHOT, records[0].id))
    session = repository.readonly_session(Branch("main"))
    for node in session.nodes():
        found[node.path.text] = node.user_data
        if node.array is not None:
            for refs in session.chunk_refs(node.path):
                for row, index in enumerate(refs.index.tolist()):
                    found[f"{node.path.text} {index}"] = refs.payload(row)
    return found


@pytest.mark.parametrize("damage", REPAIRED, ids=lambda one: f"v{one.spec_version} {one.name}")
def test_a_damage_is_repaired_and_the_old_file_kept(damage: Damage) -> None:
    store = copied(once(damage.spec_version))
    damage.plant(store)
    damaged = {key: bytes(store.get(key).data) for key in keys(store, "")}
    result = repair(store)
    assert result.steps, [str(one) for one in result.before.problems]
    assert result.after.errors == []
    assert damage.kind not in result.after.kinds
    copies = {bytes(store.get(key).data) for key in result.kept}
    assert copies == {damaged[step.key] for step in result.steps if step.key in damaged}
    if damage.kind not in RESTORED:
        assert shown(store) == shown(once(damage.spec_version))


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda one: f"v{one.spec_version} {one.name}")
def test_a_repair_makes_nothing_worse(damage: Damage) -> None:
    store = copied(once(damage.spec_version))
    damage.plant(store)
    before = set(keys(store, ""))
    result = repair(store)
    assert {one.kind for one in result.after.errors} <= {one.kind for one in result.before.errors}
    assert before <= set(keys(store, ""))


def test_a_dry_run_shows_the_steps_and_changes_nothing() -> None:
    store = copied(once(2))
    removed(store, tip_key(store, TRANSACTIONS))
    files = {key: bytes(store.get(key).data) for key in keys(store, "")}
    result = repair(store, dry_run=True)
    assert [step.kinds for step in result.steps] == [("log-missing",)]
    assert result.left == ()
    assert {key: bytes(store.get(key).data) for key in keys(store, "")} == files


def test_a_recomputed_log_tells_what_the_lost_one_told() -> None:
    store = copied(once(2))
    logs = {key: bytes(store.get(key).data) for key in keys(store, TRANSACTIONS)}
    store.delete(logs)
    result = repair(store)
    assert len(result.steps) == len(logs)
    expected = once(2)
    info = Repository.open(store).repo_info().snapshots
    for row in range(len(info)):
        if info.parent(row) >= 0:
            pair = info.id(info.parent(row)), info.id(row)
            ours, theirs = Repository.open(store), Repository.open(expected)
            assert repr(ours.diff(*pair)) == repr(theirs.diff(*pair))


def test_a_lost_repo_info_says_which_commits_are_lost_with_it() -> None:
    store = MemoryStore()
    repository = Repository.create(store)
    for message in ("kept", "lost"):
        session = repository.writable_session("main")
        session.set_node(ROOT, b'{"zarr_format": 3, "node_type": "group"}')
        session.commit(message, allow_empty=True)
    truncated(store, REPO_INFO, 60)
    result = repair(store)
    assert "'lost'" in result.steps[0].text
    messages = [one.message for one in Repository.open(store).ancestry(Branch("main"))]
    assert messages[0] == "kept"


def test_evidence_is_no_problem_of_its_own() -> None:
    store = copied(once(2))
    truncated(store, tip_key(store, TRANSACTIONS), 50)
    kept = repair(store).kept
    assert all(key.startswith(DAMAGED) and key.startswith(OVERWRITTEN) for key in kept)
    assert verify(store).problems == ()


# Problems of the entry point with which a commit is still possible
COMMITTED = [
    damage
    for damage in REPAIRED
    if damage.kind in {"refs-unsorted", "deleted-tags-unsorted", "flags-unsorted"}
]


@cache
def requests_of_repair(damage: Damage) -> int:
    store = OvertakenStore(copied(once(damage.spec_version)))
    damage.plant(store.inner)
    repair(store)
    return store.requests


@given(st.sampled_from(COMMITTED), st.floats(0, 1))
@settings(max_examples=scaled(8))
def test_a_commit_at_any_moment_of_a_repair_is_kept(damage: Damage, moment: float) -> None:
    """The damage is repaired all the same, as far as it is still there."""
    store = OvertakenStore(copied(once(damage.spec_version)))
    damage.plant(store.inner)
    made: list[SnapshotId] = []

    def commit() -> None:
        session = Repository.open(store).writable_session("main")
        session.set_node(NodePath("/theirs"), b'{"zarr_format": 3, "node_type": "group"}')
        made.append(session.commit("theirs"))

    store.arm(int(moment * (requests_of_repair(damage) - 1)), commit)
    repair(store)
    assert verify(store).errors == []
    tip = next(iter(Repository.open(store).ancestry(Branch("main"))))
    assert ([tip.id], tip.message) == (made, "theirs")


@pytest.mark.parametrize("damage", COMMITTED, ids=lambda one: one.name)
def test_a_commit_since_the_plan_of_a_repair_is_kept(damage: Damage) -> None:
    store = copied(once(2))
    damage.plant(store)
    plan = plan_repair(store, verify(store))
    assert [step.key for step in plan.steps] == [REPO_INFO]
    session = Repository.open(store).writable_session("main")
    made = session.commit("theirs", allow_empty=True)
    with pytest.raises(PreconditionFailedError):
        execute_steps(store, plan.steps, system_clock)
    assert Repository.open(store).lookup_branch("main") == made


def test_a_repo_info_that_others_restored_since_the_plan_stays() -> None:
    store = copied(once(2))
    truncated(store, REPO_INFO, 60)
    plan = plan_repair(store, verify(store))
    repair(store)
    tag = Repository.open(store)
    tag.create_tag("theirs", INITIAL_SNAPSHOT)
    with pytest.raises(PreconditionFailedError):
        execute_steps(store, plan.steps, system_clock)
    assert "theirs" in Repository.open(store).tags()


def test_a_report_that_is_no_longer_true_leads_to_no_step() -> None:
    store = copied(once(2))
    truncated(store, REPO_INFO, 60)
    report = verify(store)
    repair(store)
    assert plan_repair(store, report).steps == ()


def test_a_repair_that_others_always_overtake_gives_up() -> None:
    damage = next(one for one in COMMITTED if one.name == "branches in reverse")
    store = copied(once(2))
    damage.plant(store)
    disorder = bytes(store.get(REPO_INFO).data)
    put = store.put

    def overtake(key: str, data: Buffer, *, when: Precondition = ALWAYS) -> str:
        if key == REPO_INFO:
            put(REPO_INFO, disorder)
        return put(key, data, when=when)

    store.put = overtake  # type: ignore[method-assign]  # others write before each of our writes
    with pytest.raises(ConflictError):
        repair(store)
    assert bytes(store.get(REPO_INFO).data) == disorder


def test_nothing_is_repaired_where_nothing_may_be_written() -> None:
    with pytest.raises(ReadOnlyError):
        repair(ReadOnly(once(2)))
