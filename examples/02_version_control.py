"""Branches, tags, going back in time, and what changed in between."""

import numpy as np
import zarr
from engine import icechunk


def temperature(session: "icechunk.Session") -> object:
    array = zarr.open_array(session.store, path="t2m", mode="r")
    return np.asarray(array[:]).tolist()


def main() -> None:
    repo = icechunk.Repository.create(icechunk.in_memory_storage())
    with repo.transaction("main", message="measured") as store:
        zarr.create_array(store, name="t2m", shape=4, chunks=2, dtype="i4")[:] = 280
    measured = repo.lookup_branch("main")

    # A tag is a name for good; a branch is one that moves.
    repo.create_tag("v1", measured)
    repo.create_branch("correction", measured)
    with repo.transaction("correction", message="sensor was off by two") as store:
        zarr.open_array(store, path="t2m")[:2] = 282
    print("branches:", sorted(repo.list_branches()))
    print("tags:", sorted(repo.list_tags()))
    print("main:", temperature(repo.readonly_session("main")))
    print("correction:", temperature(repo.readonly_session("correction")))

    # Exactly what differs, down to chunks.
    diff = repo.diff(from_tag="v1", to_branch="correction")
    print(
        "changed chunks:", {path: sorted(map(list, i)) for path, i in diff.updated_chunks.items()}
    )
    assert not diff.new_arrays

    # The correction is good: main goes there. The tag stays where it is.
    repo.reset_branch("main", repo.lookup_branch("correction"), from_snapshot_id=measured)
    repo.delete_branch("correction")
    print("main:", temperature(repo.readonly_session("main")))
    print("v1:", temperature(repo.readonly_session(tag="v1")))

    # The branch as it was at a time.
    newest, *_ = repo.ancestry(branch="main")
    at_that_time = repo.readonly_session("main", as_of=newest.written_at)
    assert at_that_time.snapshot_id == newest.id

    # Some things are refused.
    try:
        repo.create_tag("v1", newest.id)
    except icechunk.IcechunkError as error:
        print("refused:", type(error).__name__)
    try:
        repo.readonly_session("correction")
    except icechunk.RefNotFoundError:
        print("there is no branch correction any more")


if __name__ == "__main__":
    main()
