"""The reference commits to a local directory; run by itself, to be killed from outside.

python -m tests.crash.reference_commits create|commit FOLDER
"""

import os
import sys
from pathlib import Path

import icechunk
import zarr

CHUNK = 256
COMMITS = 2


def storage(folder: Path) -> icechunk.Storage:
    return icechunk.local_filesystem_storage(str(folder / "repo"))


def create(folder: Path) -> None:
    session = icechunk.Repository.create(storage(folder)).writable_session("main")
    zarr.create_array(
        session.store, name="a", shape=(4 * CHUNK,), chunks=(CHUNK,), dtype="f8", compressors=None
    )
    session.commit("array")


def commit(folder: Path) -> None:
    repo = icechunk.Repository.open(storage(folder))
    report = os.open(folder / "report", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for number in range(1, COMMITS + 1):
        session = repo.writable_session("main")
        zarr.open_array(session.store, path="a")[:] = number
        made = session.commit(str(number))
        os.write(report, f"{made}\n".encode())


if __name__ == "__main__":
    {"create": create, "commit": commit}[sys.argv[1]](Path(sys.argv[2]))
