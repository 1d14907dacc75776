"""The reference reads what a process that commits again and again leaves, and goes on with it."""

from pathlib import Path

import icechunk
import pytest
import zarr

import frazil
from frazil.format import repo_info


def test_the_reference_reads_a_repo_info_that_grew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repo_info, "MOST_STEPS", 20)
    config = frazil.RepositoryConfig.default()
    config.num_updates_per_repo_info_file = 10
    place = frazil.local_filesystem_storage(str(tmp_path))
    ours = frazil.Repository.create(place, config=config)
    session = ours.writable_session("main")
    zarr.create_array(session.store, name="a", shape=(100,), chunks=(1,), dtype="i4")
    tip = session.commit("array")
    for i in range(45):
        session = ours.writable_session("main")
        zarr.open_array(session.store, path="a")[i] = i
        tip = session.commit(f"commit {i}", metadata={"number": i})
        if i % 7 == 0:
            ours = frazil.Repository.open(place)  # goes on with what it reads
        if i % 9 == 0:
            ours.create_tag(f"tag{i}", tip)
            ours.create_branch(f"branch{i}", tip)

    theirs = icechunk.Repository.open(icechunk.local_filesystem_storage(str(tmp_path)))

    def history(repo: frazil.Repository | icechunk.Repository) -> list[tuple[object, ...]]:
        found = repo.ancestry(branch="main")
        return [(s.id, s.parent_id, s.message, s.metadata, s.written_at) for s in found]

    assert history(theirs) == history(ours)
    assert [u.updated_at for u in theirs.ops_log()] == [u.updated_at for u in ours.ops_log()]
    assert len(list(ours.ops_log())) == 1 + 46 + 10
    assert theirs.list_tags() == ours.list_tags()
    assert {b: theirs.lookup_branch(b) for b in theirs.list_branches()} == {
        b: ours.lookup_branch(b) for b in ours.list_branches()
    }
    theirs.create_tag("theirs", tip)
    ours.create_tag("ours", tip)
    assert (
        theirs.list_tags()
        == ours.list_tags()
        == {"theirs", "ours"} | {f"tag{i}" for i in range(0, 45, 9)}
    )
