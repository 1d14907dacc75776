"""Repositories with hundreds of snapshots."""

from pathlib import Path

import pytest
import zarr

from tests.compat.driver import OURS, REFERENCE, Engine, assert_same, contents, history_of


# The reference does not sync its files, so it writes a thousand in the time we write a hundred.
@pytest.mark.parametrize(
    ("writer", "snapshots"), [(OURS, 200), (REFERENCE, 1000)], ids=["frazil", "icechunk"]
)
def test_a_long_history_is_read_and_extended(
    writer: Engine, snapshots: int, tmp_path: Path
) -> None:
    repo = writer.create(tmp_path)
    session = repo.writable_session("main")
    zarr.create_array(session.store, name="a", shape=(4,), chunks=(1,), dtype="i4")[...] = 1
    session.commit("the array")
    for i in range(snapshots):
        repo.writable_session("main").commit(f"{i}", metadata={"i": i}, allow_empty=True)

    for engine in (OURS, REFERENCE):
        session = engine.open(tmp_path).writable_session("main")
        zarr.open_array(session.store, path="a")[0] = 2
        session.commit(engine.name)

    ours, reference = OURS.open(tmp_path), REFERENCE.open(tmp_path)
    assert_same(history_of(ours), history_of(reference), "history")
    ancestry = list(ours.ancestry(branch="main"))
    assert len(ancestry) == snapshots + 4
    assert [info.metadata["i"] for info in ancestry[2:-2]] == list(reversed(range(snapshots)))
    middle = ancestry[snapshots // 2].id
    stores = [repo.readonly_session(snapshot_id=middle).store for repo in (ours, reference)]
    assert_same(contents(stores[0]), contents(stores[1]), "contents")
