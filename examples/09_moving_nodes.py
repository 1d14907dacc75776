"""Arrays and groups renamed, and chunks shifted: nothing is copied, and a commit says so."""

import numpy as np
import zarr
from engine import icechunk


def names(repo: "icechunk.Repository") -> list[str]:
    group = zarr.open_group(repo.readonly_session("main").store, mode="r")
    return sorted(name for name, _ in group.members(max_depth=None))


def rename(repo: "icechunk.Repository") -> None:
    """Commits moves in a rearrange session, which can do nothing else."""
    before = repo.lookup_branch("main")
    session = repo.rearrange_session("main")
    session.move("/raw/temp", "/raw/t2m")
    session.move("/raw", "/observations")
    session.commit("better names")
    print("now:", names(repo))
    diff = repo.diff(from_snapshot_id=before, to_branch="main")
    print("moved:", sorted(diff.moved_nodes))
    assert not diff.new_arrays
    assert not diff.deleted_arrays


def drop_the_oldest_day(repo: "icechunk.Repository") -> None:
    """Chunks change places: each day becomes the day before it, and the last one is new."""
    session = repo.writable_session("main")
    session.shift_array("/observations/t2m", (-1,))
    array = zarr.open_array(session.store, path="observations/t2m")
    array[6:] = 7
    session.commit("one day later")
    store = repo.readonly_session("main").store
    found = zarr.open_array(store, path="observations/t2m", mode="r")
    print("days:", np.asarray(found[:]).tolist())


def main() -> None:
    repo = icechunk.Repository.create(icechunk.in_memory_storage())
    with repo.transaction("main", message="measured") as store:
        array = zarr.create_array(store, name="raw/temp", shape=8, chunks=2, dtype="i4")
        array[:] = np.arange(8) // 2
    print("at first:", names(repo))
    rename(repo)
    drop_the_oldest_day(repo)


if __name__ == "__main__":
    main()
