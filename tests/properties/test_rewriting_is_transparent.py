"""Merge, cherry-pick, revert and rebase do the same whether or not chunks were moved in between.

Each history is played twice: with commits that store chunks and manifests in another way, and
without them. Contents and conflicts must be equal after every step.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from hypothesis import example, given, settings
from hypothesis import strategies as st

import frazil
from frazil.engine.history.history_editing import Edit, cherry_pick, merge, revert
from frazil.engine.history.squash import SquashRequest, squash
from frazil.engine.merge.rebase import Rebasing
from frazil.engine.merge.solver import Policy
from frazil.engine.refs.version import Branch
from frazil.engine.repository import Repository
from frazil.engine.session.session import Session
from frazil.errors import IcechunkError, RebaseFailedError
from frazil.ids import SnapshotId
from frazil.maintenance.pack import pack, plan_pack, plan_unpack, unpack
from frazil.maintenance.rewrite_manifests import plan_rewrite_manifests, rewrite_manifests
from frazil.objectstore.memory import MemoryStore
from frazil.paths import NodePath
from tests.examples_count import scaled
from tests.unit.engine.conftest import GROUP, array_metadata
from tests.unit.maintenance.contents import Contents, contents_of
from tests.unit.spec.written import split_every

BRANCHES = ("main", "side")
ARRAYS = ("/a", "/b")
CHUNKS = 3

type Outcome = str | list[tuple[str, str, str]]


@dataclass(frozen=True)
class Write:
    """Gives a chunk a value, or none; equal values are equal bytes in different objects."""

    path: str
    chunk: int
    value: int | None


@dataclass(frozen=True)
class Resize:
    path: str
    chunks: int


@dataclass(frozen=True)
class Delete:
    path: str


type Change = Write | Resize | Delete


@dataclass(frozen=True)
class Step:
    """`what` is done on a branch; `commit` counts backwards through the commits made so far."""

    what: str
    branch: str
    changes: tuple[Change, ...] = ()
    commit: int = 0


REWRITING = ("pack", "unpack", "rewrite", "squash")
writes = st.builds(
    Write, st.just("/a"), st.integers(0, CHUNKS - 1), st.sampled_from([1, 2, 3, None])
)
others = st.one_of(
    st.builds(Write, st.just("/b"), st.integers(0, CHUNKS - 1), st.just(4)),
    st.builds(Resize, st.sampled_from(ARRAYS), st.integers(2, CHUNKS)),
    st.builds(Delete, st.just("/b")),
)
changes = st.lists(st.one_of(writes, writes, writes, others), min_size=1, max_size=2).map(tuple)
branches = st.sampled_from(BRANCHES)
edits = st.builds(Step, st.sampled_from(["edit", "edit", "amend", "rebase"]), branches, changes)
moving = st.builds(Step, st.sampled_from(["pack", "pack", *REWRITING]), branches)
combining = st.builds(
    Step,
    st.sampled_from(["merge", "merge", "pick", "revert"]),
    branches,
    st.just(()),
    st.integers(0, 4),
)
rounds = st.tuples(st.lists(st.one_of(edits, moving), min_size=2, max_size=5), combining)
steps = st.lists(rounds, min_size=1, max_size=3).map(
    lambda listed: [step for before, last in listed for step in (*before, last)]
)


@dataclass
class Played:
    """One repository, and the commits of its steps in their order."""

    version: int
    rewriting: bool
    repository: Repository = field(init=False)
    commits: list[SnapshotId] = field(default_factory=list)

    def __post_init__(self) -> None:
        config = replace(split_every(2), inline_chunk_threshold_bytes=0)
        self.repository = Repository.create(MemoryStore(), config, spec_version=self.version)
        session = self.repository.writable_session("main")
        session.set_node(NodePath("/"), GROUP)
        for path in ARRAYS:
            session.set_node(NodePath(path), array_metadata(2 * CHUNKS))
            for chunk in range(CHUNKS):
                session.set_chunk(NodePath(path), (chunk,), bytes([9, chunk] * 10))
        start = session.commit("start")
        self.repository.create_branch("side", start)

    def play(self, step: Step) -> Outcome:
        act: Callable[[Step], Outcome] = getattr(self, step.what)
        try:
            return act(step)
        except RebaseFailedError as error:
            return sorted(
                (str(each.conflict_type), each.path, str(each.conflicted_chunks))
                for each in error.conflicts
            )
        except IcechunkError as error:
            return type(error).__name__

    def contents(self) -> dict[str, Contents]:
        return {name: contents_of(self.repository, Branch(name)) for name in BRANCHES}

    def edit(self, step: Step) -> Outcome:
        session = self.repository.writable_session(step.branch)
        apply_all(session, step.changes)
        self.commits.append(session.commit("edited", allow_empty=True))
        return "done"

    def rebase(self, step: Step) -> Outcome:
        """The first change is made by a session that began before the others and a rewriting."""
        session = self.repository.writable_session(step.branch)
        apply_all(session, step.changes[:1])
        self.edit(replace(step, changes=step.changes[1:]))
        if self.rewriting:
            self.pack(step)
            self.rewrite(step)
        policy = Rebasing(Policy())
        self.commits.append(session.commit("late", allow_empty=True, rebasing=policy))
        return "done"

    def amend(self, step: Step) -> Outcome:
        """An edit, which amends a commit that only moved chunks."""
        session = self.repository.writable_session(step.branch)
        tip = session.snapshot_id
        apply_all(session, step.changes)
        moved = self._is_moving(tip) and tip not in self._history(_other(step.branch))
        conclude = session.amend if moved and self.version == 2 else session.commit
        self.commits.append(conclude("edited", allow_empty=True))
        return "done"

    def _history(self, branch: str) -> list[SnapshotId]:
        return [each.id for each in self.repository.ancestry(Branch(branch))]

    def _is_moving(self, snapshot: SnapshotId) -> bool:
        return self.repository.lookup_snapshot(snapshot).message.startswith(("Pack", "Unpack"))

    def squash(self, step: Step) -> Outcome:
        """An edit and the moving of chunks after it as one commit, if no other branch has it."""
        ids, other = self._history(step.branch)[:2], self._history(_other(step.branch))
        if self.version == 2 and self._is_moving(ids[0]) and ids[1] in {*self.commits} - {*other}:
            request = SquashRequest(branch=step.branch, first=ids[1], message="one")
            new = squash(self.repository, request).snapshot
            assert new is not None
            self.commits[self.commits.index(ids[1])] = new
        return "done"

    def merge(self, step: Step) -> Outcome:
        merge(self.repository, _other(step.branch), Edit(branch=step.branch))
        return "done"

    def pick(self, step: Step) -> Outcome:
        cherry_pick(self.repository, self._commit(step), Edit(branch=step.branch))
        return "done"

    def revert(self, step: Step) -> Outcome:
        revert(self.repository, self._commit(step), Edit(branch=step.branch))
        return "done"

    def _commit(self, step: Step) -> SnapshotId:
        return self.commits[-1 - step.commit % max(len(self.commits), 1)]

    def pack(self, step: Step) -> Outcome:
        plan = plan_pack(self.repository, step.branch, small_bytes=100, pack_bytes=200)
        pack(self.repository, plan)
        return "done"

    def unpack(self, step: Step) -> Outcome:
        unpack(self.repository, plan_unpack(self.repository, step.branch))
        return "done"

    def rewrite(self, step: Step) -> Outcome:
        again = self.repository.reopened(replace(split_every(3), inline_chunk_threshold_bytes=0))
        rewrite_manifests(again, plan_rewrite_manifests(again, step.branch), "rewritten")
        return "done"


def _other(branch: str) -> str:
    return BRANCHES[branch == "main"]


def apply_all(session: Session, listed: tuple[Change, ...]) -> None:
    """As far as they make sense: the others are left out."""
    for change in listed:
        path = NodePath(change.path)
        node = session.find_node(path)
        if node is None or node.array is None:
            continue
        match change:
            case Delete():
                session.delete_node(path)
            case Resize(_, chunks):
                session.set_node(path, array_metadata(2 * chunks))
            case Write(_, chunk, None) if chunk < node.array.num_chunks[0]:
                session.delete_chunk(path, (chunk,))
            case Write(_, chunk, int(value)) if chunk < node.array.num_chunks[0]:
                session.set_chunk(path, (chunk,), bytes([value] * 20))


EDIT_0, EDIT_1 = (Write("/a", 0, value) for value in (1, 2))


@settings(max_examples=scaled(20))
@given(history=steps, version=st.sampled_from([1, 2]))
@example(
    history=[
        Step("edit", "side", (EDIT_0,)),
        Step("edit", "main", (Write("/b", 0, 1),)),
        Step("merge", "main"),
        Step("pack", "main"),
        Step("edit", "side", (EDIT_1,)),
        Step("merge", "main"),
    ],
    version=2,
)
@example(  # packed on the branch that is merged, edited on the other
    history=[
        Step("pack", "side"),
        Step("edit", "main", (EDIT_0,)),
        Step("merge", "main"),
        Step("unpack", "main"),
        Step("revert", "main"),
    ],
    version=1,
)
@example(  # packed on both, before a merge that is the next one's base
    history=[
        Step("pack", "side"),
        Step("pack", "main"),
        Step("edit", "main", (Write("/b", 1, 4),)),
        Step("merge", "side"),
        Step("edit", "main", (Write("/b", 0, 4),)),
        Step("merge", "side"),
    ],
    version=1,
)
def test_moved_chunks_make_no_difference(history: list[Step], version: int) -> None:
    moved, plain = Played(version, rewriting=True), Played(version, rewriting=False)
    for step in history:
        if step.what in REWRITING:
            moved.play(step)
        elif step.what not in ("pick", "revert") or plain.commits:
            assert moved.play(step) == plain.play(step), step
        assert moved.contents() == plain.contents(), step
    check_after_collection(moved)


def check_after_collection(played: Played) -> None:
    """Nothing that is left refers to what a collection of garbage deletes."""
    before = contents_of(played.repository)
    repository = frazil.Repository.open(frazil.Storage(played.repository.store))
    repository.delete_branch("side")
    later = datetime.now(UTC) + timedelta(days=1)
    repository.expire_snapshots(later)
    repository.garbage_collect(later)
    assert contents_of(played.repository) == before
    assert repository.verify().problems == ()
