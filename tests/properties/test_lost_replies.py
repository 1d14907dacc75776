"""An update whose reply is lost is recognised in the ops log, on whichever page that has it.

The store applies the write of the entry point, others update the repository any number of times,
and the writer is told that its write was refused.
"""

from collections.abc import Buffer, Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import frazil
from frazil.engine.repository import Repository
from frazil.errors import ConflictError, PreconditionFailedError
from frazil.objectstore.memory import MemoryStore
from frazil.objectstore.protocol import ALWAYS, Precondition
from frazil.objectstore.wrappers import Verb
from frazil.paths import NodePath
from frazil.testing.hooked_store import HookedStore
from tests.examples_count import scaled

GROUP = b'{"zarr_format":3,"node_type":"group"}'


class LossyStore(HookedStore[MemoryStore]):
    """After the next write of the entry point `act` happens, and then the write is refused."""

    def __init__(self) -> None:
        super().__init__(MemoryStore(), after=self._lose)
        self.act: Callable[[], object] | None = None

    def _lose(self, verb: Verb, key: str) -> None:
        if verb == "put" and key == "repo" and self.act is not None:
            act, self.act = self.act, None
            act()
            raise PreconditionFailedError(key, "what is no longer there")


def write(repository: Repository, how: str) -> object:
    session = repository.writable_session("main")
    session.set_node(NodePath("/mine"), GROUP)
    return getattr(session, how)("mine")


UPDATES: dict[str, tuple[Callable[[Repository], object], str]] = {
    "commit": (lambda ours: write(ours, "commit"), "NewCommit"),
    "amend": (lambda ours: write(ours, "amend"), "CommitAmended"),
    "flush": (lambda ours: write(ours, "flush"), "NewDetachedSnapshot"),
    "branch": (lambda ours: ours.create_branch("b", ours.lookup_branch("main")), "BranchCreated"),
    "reset": (lambda ours: ours.reset_branch("dev", ours.lookup_branch("main")), "BranchReset"),
    "delete": (lambda ours: ours.delete_branch("dev"), "BranchDeleted"),
    "tag": (lambda ours: ours.create_tag("t", ours.lookup_branch("main")), "TagCreated"),
    "metadata": (lambda ours: ours.update_metadata({"by": "us"}), "MetadataChanged"),
    "config": (lambda ours: ours.save_config(), "ConfigChanged"),
}


def create(page_size: int) -> tuple[LossyStore, Repository, Repository]:
    store = LossyStore()
    config = frazil.RepositoryConfig(num_updates_per_repo_info_file=page_size)
    ours = Repository.create(store, config)
    session = ours.writable_session("main")
    session.set_node(NodePath("/"), GROUP)
    ours.create_branch("dev", ours.lookup_branch("main"))
    session.commit("base")
    return store, ours, Repository.open(store, config)


def overtake(theirs: Repository, updates: int) -> None:
    for number in range(updates):
        theirs.create_branch(f"theirs-{number}", theirs.lookup_branch("main"))


@given(st.sampled_from(sorted(UPDATES)), st.integers(1, 6), st.integers(0, 15))
@settings(max_examples=scaled(25))
def test_an_update_whose_reply_is_lost_is_made_once(name: str, page_size: int, others: int) -> None:
    store, ours, theirs = create(page_size)
    update, kind = UPDATES[name]
    before = [type(each.kind).__name__ for each in ours.ops_log()]
    store.act = lambda: overtake(theirs, others)
    update(ours)
    again = frazil.Repository.open(frazil.Storage(store))
    kinds = [type(each.kind).__name__ for each in theirs.ops_log()]
    assert kinds == ["BranchCreated"] * others + [kind, *before]
    assert len(list(store.list("overwritten/"))) == len(kinds) - 1
    assert again.verify().problems == ()


@given(st.sampled_from(["commit", "amend"]), st.integers(1, 6), st.integers(0, 15))
@settings(max_examples=scaled(10))
def test_an_update_that_was_refused_leaves_no_backup(how: str, page_size: int, others: int) -> None:
    """Others commit before the write, which is refused for good: nothing of it is in the log."""
    store, ours, theirs = create(page_size)
    session = ours.writable_session("main")
    session.set_node(NodePath("/mine"), GROUP)
    put, armed = store.put, [True]

    def overtaken(key: str, data: Buffer, *, when: Precondition = ALWAYS) -> str:
        if key == "repo" and armed:
            armed.clear()
            write(theirs, "commit")
            overtake(theirs, others)
        return put(key, data, when=when)

    store.put = overtaken  # type: ignore[method-assign]  # others write before our write
    with pytest.raises(ConflictError):
        getattr(session, how)("mine")
    assert not armed
    updates = list(theirs.ops_log())
    assert len(updates) == 3 + 1 + others
    assert len(list(store.list("overwritten/"))) == len(updates) - 1
    assert frazil.Repository.open(frazil.Storage(store)).verify().errors == []


def test_a_backup_is_kept_where_the_log_does_not_tell() -> None:
    """A page is missing between the newest one and our update, which is no commit."""
    store, ours, theirs = create(1)

    def act() -> None:
        overtake(theirs, 5)
        before = theirs.repo_info().before_updates
        store.delete([f"overwritten/{before}"])

    store.act = act
    kept = len(list(store.list("overwritten/")))
    ours.update_metadata({"by": "us"})  # done twice: which is as good as once
    assert len(list(store.list("overwritten/"))) == kept + 1 + 5 - 1 + 1
