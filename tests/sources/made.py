"""References as kerchunk makes them of HDF5 files."""

import gc
from pathlib import Path
from typing import Any

from kerchunk.hdf import SingleHdf5ToZarr


def hdf5_references(file: Path, url: str, *, inline_threshold: int = 0) -> dict[str, Any]:
    # kerchunk waits for zarr's thread while it holds h5py's lock. If that thread happens to
    # collect something of h5py's, both wait for ever.
    gc.collect()
    gc.disable()
    try:
        with file.open("rb") as opened:
            maker = SingleHdf5ToZarr(opened, url, inline_threshold=inline_threshold)
            found: dict[str, Any] = maker.translate()
            return found
    finally:
        gc.enable()
