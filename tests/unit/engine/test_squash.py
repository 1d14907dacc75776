"""Several commits made into one."""

from collections.abc import Callable

import pytest

from frazil.engine.history.history_editing import Edit, merge
from frazil.engine.history.squash import SquashRequest, squash
from frazil.engine.refs.version import Branch
from frazil.engine.repository import Repository
from frazil.errors import (
    ConflictError,
    InvalidInputError,
    SessionStateError,
)
from frazil.ids import SnapshotId
from frazil.objectstore.memory import MemoryStore
from frazil.objectstore.wrappers import Verb
from frazil.paths import NodePath
from frazil.testing.hooked_store import HookedStore
from tests.unit.engine.conftest import array_metadata
from tests.unit.engine.edits import (
    CHILD,
    A,
    B,
    branched_repository,
    chunks,
    commit,
    contents,
    delete,
    parent,
    update,
    write,
)

MAIN, SIDE = Edit(branch="main"), Edit(branch="side")


@pytest.fixture
def repository(store: MemoryStore) -> Repository:
    return branched_repository(store)


def history_of(repository: Repository, branch: str = "main") -> list[str]:
    return [record.message for record in repository.ancestry(Branch(branch))][::-1]


def some_history(repository: Repository) -> list[SnapshotId]:
    return [
        commit(repository, write(A, 0, data=b"1"), update(NodePath("/n"), array_metadata(2))),
        commit(repository, write(A, 1, data=b"2"), write(NodePath("/n"), 0)),
        commit(repository, write(A, 0, data=b"3"), delete(CHILD)),
        commit(repository, write(B, 0, data=b"4")),
    ]


def test_a_range_becomes_one_commit(repository: Repository) -> None:
    ids = some_history(repository)
    start = parent(repository, ids[0])
    old = repository.diff(start, ids[-1])
    before = contents(repository, "main")
    result = squash(repository, SquashRequest(branch="main", first=ids[0], message="all"))
    assert result.snapshot == result.tip == repository.lookup_branch("main")
    assert result.squashed == tuple(ids)
    assert contents(repository, "main") == before
    assert history_of(repository) == ["Repository initialized", "base", "all"]
    assert result.snapshot is not None
    new = repository.diff(start, result.snapshot)
    assert (new.new_arrays, new.deleted_arrays) == (old.new_arrays, old.deleted_arrays)
    assert {path: index.tolist() for path, index in new.updated_chunks.items()} == {
        path: index.tolist() for path, index in old.updated_chunks.items()
    }
    assert contents(repository, ids[1])["/a"][1][(1,)] == b"2"  # still there
    record = repository.lookup_snapshot(result.snapshot)
    assert record.metadata == {"frazil": {"squashed": [str(each) for each in ids]}}
    assert record.flushed_at_us == repository.lookup_snapshot(ids[-1]).flushed_at_us


def test_commits_after_the_range_follow_it(repository: Repository) -> None:
    ids = some_history(repository)
    request = SquashRequest(branch="main", first=ids[0], last=ids[1], message="two")
    result = squash(repository, request)
    assert result.followers == tuple(ids[2:])
    assert history_of(repository) == [
        "Repository initialized", "base", "two", "a change", "a change",
    ]  # fmt: skip
    new = [record.id for record in repository.ancestry(Branch("main"))][::-1][2:]
    assert (result.snapshot, result.tip) == (new[0], new[-1])
    for old, replacement in zip(ids[1:], new, strict=True):
        assert contents(repository, old) == contents(repository, replacement)
    done, was = repository.diff(new[0], new[1]), repository.diff(ids[1], ids[2])
    assert (done.deleted_arrays, list(done.updated_chunks)) == (
        was.deleted_arrays,
        list(was.updated_chunks),
    )
    commit(repository, write(A, 3))


def test_a_dry_run_squashes_nothing(repository: Repository) -> None:
    ids = some_history(repository)
    request = SquashRequest(branch="main", first=ids[1], message="m", dry_run=True)
    result = squash(repository, request)
    assert (result.snapshot, result.squashed) == (None, tuple(ids[1:]))
    assert repository.lookup_branch("main") == ids[-1]


def test_other_branches_stay_where_they_are(repository: Repository) -> None:
    ids = some_history(repository)
    repository.create_tag("old", ids[2])
    squash(repository, SquashRequest(branch="main", first=ids[0], message="all"))
    assert repository.lookup_tag("old") == ids[2]
    assert len(history_of(repository, "side")) == 2


def test_a_squashed_merge_is_still_known_as_one(repository: Repository) -> None:
    first = commit(repository, write(A, 0))
    commit(repository, write(A, 1), branch="side")
    merge(repository, "side", MAIN)
    squash(repository, SquashRequest(branch="main", first=first, message="all"))
    tip = repository.lookup_branch("main")
    assert merge(repository, "side", MAIN).snapshot is None
    assert repository.lookup_branch("main") == tip


def test_ranges_that_are_none_are_refused(repository: Repository) -> None:
    ids = some_history(repository)
    other = commit(repository, write(A, 0), branch="side")
    backwards = SquashRequest(branch="main", first=ids[2], last=ids[0], message="m")
    elsewhere = SquashRequest(branch="main", first=other, message="m")
    for request, why in ((backwards, "comes before"), (elsewhere, "not in the history")):
        with pytest.raises(InvalidInputError, match=why):
            squash(repository, request)
    initial = parent(repository, parent(repository, ids[0]))
    with pytest.raises(SessionStateError, match="first snapshot"):
        squash(repository, SquashRequest(branch="main", first=initial, message="m"))


class Interloper(HookedStore[MemoryStore]):
    """Lets another client commit while transaction logs are being written."""

    def __init__(self) -> None:
        super().__init__(MemoryStore(), before=self._act)
        self.meanwhile: Callable[[], object] | None = None

    def _act(self, verb: Verb, key: str) -> None:
        del key
        if verb == "sync" and self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            meanwhile()


def test_a_commit_in_the_meantime_is_not_lost() -> None:
    store = Interloper()
    repository = Repository.create(store)
    commit(repository, update(A, array_metadata(8)))
    ids = some_history_of(repository)
    store.meanwhile = lambda: commit(repository, write(A, 3))
    with pytest.raises(ConflictError):
        squash(repository, SquashRequest(branch="main", first=ids[0], message="all"))
    assert chunks(repository, A) == [b"1", b"2", None, b"new"]


def some_history_of(repository: Repository) -> list[SnapshotId]:
    return [commit(repository, write(A, i, data=str(i + 1).encode())) for i in range(2)]
