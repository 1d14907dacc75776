"""Commit, rebase, amend and flush through the public classes."""

import pickle

import pytest
import zarr

import frazil


@pytest.fixture
def repo() -> frazil.Repository:
    """With an array of four chunks."""
    repo = frazil.Repository.create(frazil.in_memory_storage())
    with repo.transaction("main", message="begin") as store:
        zarr.create_array(store, name="a", shape=(8,), chunks=(2,), dtype="i4", compressors=None)
    return repo


def fill(store: frazil.IcechunkStore, chunk: int, value: int) -> None:
    zarr.open_array(store, path="a", mode="r+")[2 * chunk : 2 * chunk + 2] = value


def values(repo: frazil.Repository) -> list[int]:
    array = zarr.open_array(repo.readonly_session("main").store, path="a", mode="r")
    return [int(array[2 * chunk]) for chunk in range(4)]  # type: ignore[arg-type]  # one number


def racing(repo: frazil.Repository, mine: int, theirs: int) -> frazil.Session:
    """A session that wrote chunk `mine`, on a branch where `theirs` was written since."""
    session = repo.writable_session("main")
    fill(session.store, mine, 1)
    with repo.transaction("main", message="theirs") as store:
        fill(store, theirs, 2)
    return session


def test_a_transaction_rebases_if_told_how(repo: frazil.Repository) -> None:
    with repo.transaction("main", message="ours", rebase_with=frazil.ConflictDetector()) as store:
        fill(store, 0, 1)
        with repo.transaction("main", message="theirs") as other:
            fill(other, 1, 2)
    assert values(repo) == [1, 2, 0, 0]
    newest = next(iter(repo.ancestry(branch="main")))
    assert newest.metadata == {"__icechunk": {"rebase_attempts": 1}}


def test_a_transaction_that_loses_raises(repo: frazil.Repository) -> None:
    def lose() -> None:
        with repo.transaction("main", message="ours") as store:
            fill(store, 0, 1)
            with repo.transaction("main", message="theirs") as other:
                fill(other, 1, 2)

    with pytest.raises(frazil.ConflictError) as caught:
        lose()
    assert caught.value.kind == "commit-conflict"
    assert values(repo) == [0, 2, 0, 0]


async def test_async_methods_do_what_the_others_do(repo: frazil.Repository) -> None:
    session = racing(repo, 0, 1)
    await session.rebase_async(frazil.ConflictDetector())
    await session.commit_async("ours")
    session = racing(repo, 2, 3)
    await session.commit_async("ours", rebase_with=frazil.BasicConflictSolver(), rebase_tries=2)
    assert values(repo) == [1, 2, 1, 2]
    session = repo.writable_session("main")
    fill(session.store, 0, 7)
    amended = await session.amend_async("amended", metadata={"k": 1})
    assert repo.lookup_branch("main") == amended
    session = repo.writable_session("main")
    fill(session.store, 0, 8)
    aside = await session.flush_async("aside", metadata={"k": 2})
    assert repo.lookup_snapshot(aside).metadata == {"k": 2}
    assert values(repo) == [7, 2, 1, 2]


def test_a_failure_tells_everything_and_can_be_pickled(repo: frazil.Repository) -> None:
    session = racing(repo, 1, 1)
    with pytest.raises(frazil.RebaseFailedError) as caught:
        session.rebase(frazil.ConflictDetector())
    error = pickle.loads(pickle.dumps(caught.value))
    assert (
        str(error) == f"Rebase failed on snapshot {repo.lookup_branch('main')}: 1 conflicts found"
    )
    (conflict,) = error.conflicts
    assert conflict == frazil.Conflict(frazil.ConflictType.ChunkDoubleUpdate, "/a", [[1]])
    assert (error.snapshot, error.kind) == (repo.lookup_branch("main"), "rebase-failed")
    assert (error.expected_parent, error.actual_parent) == (None, None)


def test_solvers_are_made_by_name(repo: frazil.Repository) -> None:
    with pytest.raises(TypeError):
        frazil.ConflictSolver()
    with pytest.raises(TypeError, match="VersionSelection"):
        frazil.BasicConflictSolver(on_chunk_conflict=1)  # type: ignore[arg-type]  # what is tested
    with pytest.raises(TypeError, match="ConflictSolver"):
        repo.writable_session("main").rebase(5)  # type: ignore[arg-type]  # what is tested
    assert "merge_appends=True" in repr(frazil.BasicConflictSolver(merge_appends=True))
    assert repr(frazil.ConflictDetector()) == "ConflictDetector()"
