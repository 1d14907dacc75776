"""A process that sees one commit after another keeps no more for each of them."""

import gc
from datetime import UTC, datetime

import numpy as np
import zarr

import frazil
from tests.soak.load import SMALL

ROUND = 60  # commits


def test_nothing_is_kept_of_a_commit_that_caches_do_not_keep() -> None:
    """Objects are counted: a reference that nobody drops is one more for each commit."""
    storage = frazil.in_memory_storage()
    frazil.Repository.create(storage)
    writer, reader = (frazil.Repository.open(storage, config=SMALL) for _ in range(2))
    session = writer.writable_session("main")
    zarr.create_array(session.store, name="a", shape=(60,), chunks=(10,), dtype="i8")
    session.commit("array")

    def kept_after_a_round() -> int:
        for number in range(ROUND):
            session = writer.writable_session("main")
            part = slice(number % 6 * 10, number % 6 * 10 + 10)
            zarr.open_array(session.store, path="a")[part] = number
            session.commit(f"{number}")
            seen = zarr.open_array(reader.readonly_session("main").store, path="a", mode="r")
            assert (np.asarray(seen[part]) == number).all()
            assert len(list(reader.ancestry(branch="main"))) >= 2
        writer.expire_snapshots(datetime.now(UTC))
        writer.garbage_collect(datetime.now(UTC))
        gc.collect()
        return len(gc.get_objects())

    for _ in range(3):
        kept_after_a_round()  # until caches are full and modules loaded
    before = kept_after_a_round()
    assert kept_after_a_round() - before < ROUND // 2
