"""Chunks that one assignment stores together: in packs, or in their references."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from tests.compat.driver import OURS, REFERENCE

COUNT = 200  # of chunks: more than are kept one by one


@pytest.mark.parametrize("chunk", [5, 1000], ids=["inline", "packed"])
def test_the_reference_reads_chunks_that_were_stored_together(chunk: int, tmp_path: Path) -> None:
    values = np.arange(COUNT * chunk, dtype=np.float32) + 1
    repo = OURS.create(tmp_path)
    session = repo.writable_session("main")
    array = zarr.create_array(
        session.store, name="x", shape=values.shape, chunks=(chunk,), dtype="f4", compressors=None
    )
    array[:] = values
    array[chunk : 2 * chunk] = 0  # what is only fill value is not stored
    values[chunk : 2 * chunk] = 0
    session.commit("together")
    theirs = REFERENCE.open(tmp_path)
    assert np.array_equal(_values(theirs), values)
    assert np.array_equal(_values(OURS.open(tmp_path)), values)
    # The one object of all chunks is kept as long as one of them is.
    session = theirs.writable_session("main")
    zarr.open_array(session.store, path="x")[: 100 * chunk] = 7
    session.commit("half of it again")
    values[: 100 * chunk] = 7
    later = datetime.now(UTC) + timedelta(days=1)
    theirs.expire_snapshots(later)
    theirs.garbage_collect(later)
    assert np.array_equal(_values(REFERENCE.open(tmp_path)), values)
    assert np.array_equal(_values(OURS.open(tmp_path)), values)


def _values(repo: Any) -> Any:
    return zarr.open_array(repo.readonly_session("main").store, path="x", mode="r")[:]
