"""A repository, two commits, and the data as it was after each of them."""

from tempfile import TemporaryDirectory

import numpy as np
import zarr
from engine import icechunk


def main(folder: str) -> None:
    storage = icechunk.local_filesystem_storage(f"{folder}/weather")
    repo = icechunk.Repository.create(storage)

    # Changes are made in a session, through a Zarr store. They are not visible before the commit.
    session = repo.writable_session("main")
    root = zarr.create_group(session.store)
    t2m = root.create_array("t2m", shape=(4, 3), chunks=(1, 3), dtype="f4")
    t2m[:] = 280.0
    assert zarr.open_array(session.store, path="t2m").shape == (4, 3)
    first = session.commit("four days")

    # A transaction commits at the end of the block.
    with repo.transaction("main", message="the second day was warmer") as store:
        zarr.open_array(store, path="t2m")[1] = 281.5

    now = zarr.open_array(repo.readonly_session("main").store, path="t2m", mode="r")
    then = zarr.open_array(repo.readonly_session(snapshot_id=first).store, path="t2m", mode="r")
    print("now: ", np.asarray(now[:, 0]).tolist())
    print("then:", np.asarray(then[:, 0]).tolist())
    assert now[1, 0] == 281.5
    assert then[1, 0] == 280.0

    for snapshot in repo.ancestry(branch="main"):
        print("-", snapshot.message)

    # Later, elsewhere.
    again = icechunk.Repository.open(storage)
    assert again.lookup_branch("main") == repo.lookup_branch("main")


if __name__ == "__main__":
    with TemporaryDirectory() as made:
        main(made)
