"""Two writers of one branch: changes that do not touch are rebased, others are decided upon."""

import numpy as np
import zarr
from engine import icechunk


def start() -> "icechunk.Repository":
    """Two arrays of four chunks with zeros."""
    repo = icechunk.Repository.create(icechunk.in_memory_storage())
    with repo.transaction("main", message="zeros") as store:
        for name in ("rain", "t2m"):
            zarr.create_array(store, name=name, shape=4, chunks=1, dtype="i4")[:] = 0
    return repo


def values(repo: "icechunk.Repository", name: str) -> object:
    array = zarr.open_array(repo.readonly_session("main").store, path=name, mode="r")
    return np.asarray(array[:]).tolist()


def changes_that_do_not_touch() -> None:
    repo = start()
    mine, yours = repo.writable_session("main"), repo.writable_session("main")
    zarr.open_array(mine.store, path="t2m")[0] = 1
    zarr.open_array(yours.store, path="t2m")[3] = 2
    mine.commit("first chunk")
    yours.commit("last chunk", rebase_with=icechunk.ConflictDetector())
    print("both are there:", values(repo, "t2m"))


def changes_of_the_same_chunk() -> None:
    repo = start()
    mine, yours = repo.writable_session("main"), repo.writable_session("main")
    zarr.open_array(mine.store, path="t2m")[:2] = 1
    zarr.open_array(yours.store, path="t2m")[1:] = 2
    mine.commit("ones")
    try:
        yours.rebase(icechunk.ConflictDetector())
    except icechunk.RebaseFailedError as error:
        for conflict in error.conflicts:
            assert conflict.conflict_type == icechunk.ConflictType.ChunkDoubleUpdate
            print("both wrote chunks", conflict.conflicted_chunks, "of", conflict.path)

    # The session still has its changes; now a solver decides whose chunks are kept.
    solver = icechunk.BasicConflictSolver(on_chunk_conflict=icechunk.VersionSelection.UseTheirs)
    yours.rebase(solver)
    yours.commit("twos, where there was nothing new")
    print("theirs is kept:", values(repo, "t2m"))


def a_policy_for_every_commit() -> None:
    repo = start()
    mine, yours = repo.writable_session("main"), repo.writable_session("main")
    zarr.open_array(mine.store, path="rain")[:] = 1
    zarr.open_array(yours.store, path="rain")[2] = 2
    mine.commit("ones")
    ours = icechunk.BasicConflictSolver(on_chunk_conflict=icechunk.VersionSelection.UseOurs)
    yours.commit("a two", rebase_with=ours)
    print("ours is kept:", values(repo, "rain"))


if __name__ == "__main__":
    changes_that_do_not_touch()
    changes_of_the_same_chunk()
    a_policy_for_every_commit()
