"""Storage that is equal for both engines: as far, and as durable.

On a local disk the reference leaves it to the operating system when a commit arrives there; frazil
syncs what it commits, unless told not to. With `--latency` it is a bucket that takes its time.
"""

import os
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks.slow_bucket import bucket_storage
from frazil.objectstore.local import LocalStore

PORT = "FRAZIL_BENCH_PORT"  # of the bucket, for the processes of the stages


def storage(engine: ModuleType, root: Path, *, durable: bool = False) -> Any:
    """`durable` as far as the engine knows how to be."""
    if port := os.environ.get(PORT):
        return bucket_storage(engine, int(port), root.name)
    if engine.__name__ == "frazil" and not durable:
        return engine.Storage(LocalStore(root, fsync=False))
    return engine.local_filesystem_storage(str(root))


def empty_files(directory: Path) -> None:
    """Frees the disk, and leaves it to the end of the program to delete the files.

    For minutes after many files were deleted, ext4 may take longer to create each file, as it looks
    for an inode that was not in use a moment ago: the next run would pay for this one.
    """
    for path in directory.rglob("*"):
        if path.is_file():
            os.truncate(path, 0)
