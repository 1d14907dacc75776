"""Arrays over files that stay where they are: references, and who may follow them."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import zarr
from engine import icechunk

HEADER = b"header__"


def make_files(folder: Path) -> None:
    """Writes two days in a foreign file format: a header, then four numbers."""
    folder.mkdir()
    for day in range(2):
        numbers = np.arange(4, dtype="<i4") + 10 * day
        (folder / f"day{day}.bin").write_bytes(HEADER + numbers.tobytes())


def main(folder: str) -> None:
    archive = Path(folder, "archive")
    make_files(archive)
    prefix = f"file://{archive}/"

    # A container says where files may be, and is stored. Who opens the repository must allow it.
    config = icechunk.RepositoryConfig.default()
    files = icechunk.local_filesystem_store(str(archive))
    config.set_virtual_chunk_container(icechunk.VirtualChunkContainer(prefix, files))
    storage = icechunk.local_filesystem_storage(f"{folder}/weather")
    access = {prefix: icechunk.credentials.LocalFileSystemAccess}
    repo = icechunk.Repository.create(storage, config, access)

    session = repo.writable_session("main")
    zarr.create_array(
        session.store, name="v", shape=(2, 4), chunks=(1, 4), dtype="<i4",
        filters=None, compressors=None,
    )  # fmt: skip
    for day in range(2):
        location = f"{prefix}day{day}.bin"
        session.store.set_virtual_ref(f"v/c/{day}/0", location, offset=len(HEADER), length=16)
    session.commit("two files, not copied")

    array = zarr.open_array(repo.readonly_session("main").store, path="v", mode="r")
    print("values:", np.asarray(array[:]).tolist())
    session = repo.readonly_session("main")
    print("files:", sorted(Path(each).name for each in session.all_virtual_chunk_locations()))

    # A correction is a chunk like any other; the file stays as it is.
    with repo.transaction("main", message="a correction") as store:
        zarr.open_array(store, path="v")[1] = 0
    array = zarr.open_array(repo.readonly_session("main").store, path="v", mode="r")
    print("corrected:", np.asarray(array[1]).tolist())
    assert (archive / "day1.bin").read_bytes()[8:12] == b"\x0a\0\0\0"


if __name__ == "__main__":
    with TemporaryDirectory() as made:
        main(made)
