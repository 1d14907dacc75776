"""History that is not needed any more, and the files that only it needed."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import zarr
from engine import icechunk


def chunk_files(folder: str) -> int:
    return len([*Path(folder, "weather", "chunks").iterdir()])


def main(folder: str) -> None:
    config = icechunk.RepositoryConfig(inline_chunk_threshold_bytes=0)
    storage = icechunk.local_filesystem_storage(f"{folder}/weather")
    repo = icechunk.Repository.create(storage, config)
    for day in range(4):
        with repo.transaction("main", message=f"day {day}") as store:
            array = zarr.create_array(
                store, name="a", shape=(8,), chunks=(8,), dtype="i4", overwrite=True
            )
            array[:] = day + 1
        if day == 1:
            repo.create_tag("release", repo.lookup_branch("main"))
    print("commits:", [each.message for each in repo.ancestry(branch="main")][:-1])
    print("chunk files:", chunk_files(folder))

    # In earnest: datetime.now(UTC) - timedelta(days=90). Here everything is to be old.
    soon = datetime.now(UTC) + timedelta(days=1)
    expired = repo.expire_snapshots(soon)
    print("expired:", len(expired))
    print("commits:", [each.message for each in repo.ancestry(branch="main")][:-1])

    # The tag and the tip of main keep what they need.
    collected = repo.garbage_collect(soon)
    print("chunk files deleted:", collected.chunks_deleted)
    print("chunk files left:", chunk_files(folder))
    old = zarr.open_array(repo.readonly_session(tag="release").store, path="a", mode="r")
    assert np.asarray(old[:]).tolist() == [2] * 8


if __name__ == "__main__":
    with TemporaryDirectory() as made:
        main(made)
