"""A repository with a thousand snapshots."""

from pathlib import Path

import pytest
import zarr

from tests.compat.driver import OURS, REFERENCE, Engine, assert_same, contents, history_of

SNAPSHOTS = 1000


@pytest.mark.parametrize("writer", [OURS, REFERENCE], ids=lambda engine: engine.name)
def test_a_thousand_snapshots_are_read_and_extended(writer: Engine, tmp_path: Path) -> None:
    repo = writer.create(tmp_path)
    session = repo.writable_session("main")
    zarr.create_array(session.store, name="a", shape=(4,), chunks=(1,), dtype="i4")[...] = 1
    session.commit("the array")
    for i in range(SNAPSHOTS):
        repo.writable_session("main").commit(f"{i}", metadata={"i": i}, allow_empty=True)

    for engine in (OURS, REFERENCE):
        session = engine.open(tmp_path).writable_session("main")
        zarr.open_array(session.store, path="a")[0] = 2
        session.commit(engine.name)

    ours, reference = OURS.open(tmp_path), REFERENCE.open(tmp_path)
    assert_same(history_of(ours), history_of(reference), "history")
    ancestry = list(ours.ancestry(branch="main"))
    assert len(ancestry) == SNAPSHOTS + 4
    assert [info.metadata["i"] for info in ancestry[2:-2]] == list(reversed(range(SNAPSHOTS)))
    middle = ancestry[SNAPSHOTS // 2].id
    stores = [repo.readonly_session(snapshot_id=middle).store for repo in (ours, reference)]
    assert_same(contents(stores[0]), contents(stores[1]), "contents")
