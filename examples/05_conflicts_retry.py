"""Two writers of one branch: the second one learns of it, and tries again."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import zarr
from engine import icechunk


def commit_with_retries(
    repo: "icechunk.Repository",
    change: Callable[["icechunk.IcechunkStore"], None],
    message: str,
    tries: int = 50,
) -> int:
    """Makes a change on top of the newest commit. Returns the number of attempts."""
    for attempt in range(1, tries + 1):
        session = repo.writable_session("main")
        change(session.store)
        try:
            session.commit(message)
        except icechunk.ConflictError:
            continue  # another writer was faster: begin with its commit
        return attempt
    raise TimeoutError(f"{tries} attempts were too few")


def add_one(store: "icechunk.IcechunkStore") -> None:
    counter = zarr.open_array(store, path="counter")
    counter[0] = np.asarray(counter[0]) + 1


def main() -> None:
    # In memory: on a local filesystem the reference is not safe for writers at the same time.
    # (frazil is: try it with local_filesystem_storage.)
    repo = icechunk.Repository.create(icechunk.in_memory_storage())
    with repo.transaction("main", message="start") as store:
        zarr.create_array(store, name="counter", shape=1, dtype="i4")[0] = 0

    # Both begin at the same snapshot.
    mine, yours = repo.writable_session("main"), repo.writable_session("main")
    add_one(mine.store)
    add_one(yours.store)
    mine.commit("mine")
    try:
        yours.commit("yours")
    except icechunk.ConflictError:
        print("refused, and nothing is lost:", yours.has_uncommitted_changes)

    # Six threads, five times each: no addition is lost.
    with ThreadPoolExecutor(6) as pool:
        tasks = [pool.submit(commit_with_retries, repo, add_one, f"{i}") for i in range(30)]
        attempts = [task.result() for task in tasks]
    assert sum(attempts) >= len(attempts)
    total = zarr.open_array(repo.readonly_session("main").store, path="counter", mode="r")[0]
    print("counted:", total)
    assert len(list(repo.ancestry(branch="main"))) == 33


if __name__ == "__main__":
    main()
