"""10,000 uncompressed chunks of 4 KB, a file each, written by the reference: read by both."""

from pathlib import Path
from types import ModuleType

import icechunk

from benchmarks import raw_chunks
from benchmarks.timing import Stopwatch


def write(engine: ModuleType, root: Path, stopwatch: Stopwatch) -> None:
    """Writes with the reference for both engines."""
    del engine
    session, array = raw_chunks.new_array(icechunk, root)
    with stopwatch("written by the reference"):
        array[...] = raw_chunks.some_values()
        session.commit("chunks")


STAGES = {"write": write, "read": raw_chunks.read}
