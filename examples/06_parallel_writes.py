"""One commit, written by several processes: the session is forked, the forks are merged."""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from tempfile import TemporaryDirectory

import numpy as np
import zarr
from engine import icechunk


def write_day(fork: "icechunk.ForkSession", day: int) -> "icechunk.ForkSession":
    """Runs in another process; sends back what it wrote, without the data."""
    zarr.open_array(fork.store, path="t2m")[day] = 280 + day
    return fork


def main(folder: str) -> None:
    repo = icechunk.Repository.create(icechunk.local_filesystem_storage(f"{folder}/weather"))

    # Arrays are created first, and committed: forks that create nodes of one path contradict.
    with repo.transaction("main", message="empty array") as store:
        zarr.create_array(store, name="t2m", shape=(8, 100), chunks=(1, 100), dtype="i4")

    session = repo.writable_session("main")
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        tasks = [pool.submit(write_day, session.fork(), day) for day in range(8)]
        session.merge(*(task.result() for task in tasks))
    print("changed chunks:", len(session.status().updated_chunks["/t2m"]))
    session.commit("eight days")

    t2m = zarr.open_array(repo.readonly_session("main").store, path="t2m", mode="r")
    print("first column:", np.asarray(t2m[:, 0]).tolist())
    print("commits:", [snapshot.message for snapshot in repo.ancestry(branch="main")])


if __name__ == "__main__":
    with TemporaryDirectory() as made:
        main(made)
