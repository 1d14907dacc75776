"""What other processes do in the tests of forks; a module, so that they can import it."""

import os
from typing import Any

import numpy as np
import zarr

from frazil import ForkSession


def write_rows(fork: ForkSession, path: str, start: int, stop: int) -> tuple[int, ForkSession]:
    """The fork with rows of an array written, and the process that wrote them."""
    array = zarr.open_array(fork.store, path=path, mode="r+")
    array[start:stop] = np.arange(start, stop)[:, np.newaxis]
    return os.getpid(), fork


def write_block(array: "zarr.Array[Any]", start: int, stop: int) -> "zarr.Array[Any]":
    """The array, which brings its store and session along."""
    array[start:stop] = np.arange(start, stop)[:, np.newaxis]
    return array
