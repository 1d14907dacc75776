"""More of docs/differences.md: single calls to stores, sessions and repositories."""

import pkgutil
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import icechunk
import numpy as np
import pytest
import zarr
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync

import frazil

PROTOTYPE = default_buffer_prototype()
GROUP = PROTOTYPE.buffer.from_bytes(b'{"zarr_format":3,"node_type":"group"}')


@pytest.fixture
def repo() -> frazil.Repository:
    """With an array `a` of four chunks."""
    repo = frazil.Repository.create(frazil.in_memory_storage())
    session = repo.writable_session("main")
    array = zarr.create_group(session.store).create_array("a", shape=4, chunks=1, dtype="i4")
    array[:] = [1, 2, 3, 4]
    session.commit("base")
    return repo


async def test_keys_and_prefixes_are_those_of_other_stores(repo: frazil.Repository) -> None:
    store = repo.writable_session("main").store
    assert await store.get("/a/zarr.json", PROTOTYPE) is not None
    await store.delete("foo")
    assert sorted([key async for key in store.list_prefix("a/c/1")]) == ["a/c/1"]
    assert [key async for key in store.list_prefix("nothing")] == []
    with pytest.raises(FileNotFoundError):
        await store.getsize("nothing/zarr.json")
    with pytest.raises(frazil.InvalidInputError):
        await store.set("a//b/zarr.json", GROUP)


@pytest.mark.parametrize(
    "rest",
    [
        b'"shape":[1],"chunk_grid":{"name":"regular","configuration":{"chunk_shape":[0]}}',
        b'"shape":[99999999999],"chunk_grid":{"name":"regular","configuration":{"chunk_shape":[1]}}',
        (
            b'"shape":[1],"dimension_names":["x","y"],'
            b'"chunk_grid":{"name":"regular","configuration":{"chunk_shape":[1]}}'
        ),
    ],
)
def test_metadata_that_no_reader_can_use_is_refused(repo: frazil.Repository, rest: bytes) -> None:
    document = PROTOTYPE.buffer.from_bytes(b'{"zarr_format":3,"node_type":"array",%b}' % rest)
    with pytest.raises(frazil.InvalidInputError) as caught:
        sync(repo.writable_session("main").store.set("n/zarr.json", document))
    assert caught.value.kind == "bad-metadata"


def test_writing_to_a_read_only_store_is_always_the_same_error(repo: frazil.Repository) -> None:
    store = repo.readonly_session("main").store
    chunk = PROTOTYPE.buffer.from_bytes(b"1234")
    for attempt in (store.set, store.set_if_not_exists):
        with pytest.raises(ValueError, match="read-only") as caught:
            sync(attempt("a/c/0", chunk))
        assert isinstance(caught.value, frazil.ReadOnlyError)
        assert caught.value.kind == "read-only-store"


def test_virtual_references_are_set_all_or_none(repo: frazil.Repository) -> None:
    session = repo.writable_session("main")
    numbers = np.ones(3, dtype=np.uint64)
    with pytest.raises(frazil.InvalidInputError):
        session.store.set_virtual_refs_arr(
            "a",
            (3,),
            ["s3://b/k"] * 3,
            numbers,
            numbers,
            validate_containers=False,
            arr_offset=(2,),
        )
    assert not session.has_uncommitted_changes


def test_a_time_that_cannot_be_stored_is_refused(repo: frazil.Repository) -> None:
    store = repo.writable_session("main").store
    for year in (1960, 2200):
        with pytest.raises(frazil.InvalidInputError) as caught:
            store.set_virtual_ref(
                "a/c/0",
                "s3://b/k",
                offset=0,
                length=1,
                checksum=datetime(year, 1, 1, tzinfo=UTC),
                validate_container=False,
            )
        assert caught.value.kind == "invalid-virtual-ref"


def test_ids_are_checked_before_anything_is_read(repo: frazil.Repository) -> None:
    with pytest.raises(frazil.SnapshotNotFoundError):
        repo.list_manifest_files("AAAAAAAAAAAAAAAAAAA0")
    for look in (repo.inspect_snapshot, repo.inspect_manifest, repo.inspect_transaction_log):
        with pytest.raises(frazil.InvalidInputError):
            look("x")


def test_deleted_chunks_are_not_moved(repo: frazil.Repository) -> None:
    session = repo.writable_session("main")
    sync(session.store.delete("a/c/1"))
    session.reindex_array("/a", lambda place: [3 - next(iter(place))])
    found = np.asarray(zarr.open_array(session.store, path="a", mode="r")[:]).tolist()
    assert found == [4, 3, 3, 1]


def test_a_commit_to_a_read_only_repository_stores_nothing(repo: frazil.Repository) -> None:
    session = repo.writable_session("main")
    zarr.create_group(session.store, path="new")
    repo.set_status(frazil.RepoStatus(frazil.RepoAvailability.read_only))
    settings = repo.storage.default_settings()
    before = len(list(repo.storage.list_objects_metadata(settings)))
    with pytest.raises(frazil.ReadOnlyError):
        session.commit("refused")
    assert len(list(repo.storage.list_objects_metadata(settings))) == before


@pytest.mark.parametrize("engine", [icechunk, frazil], ids=["icechunk", "frazil"])
def test_a_creation_that_was_interrupted_is_taken_up(tmp_path: Path, engine: Any) -> None:
    storage = engine.local_filesystem_storage(str(tmp_path))
    engine.Repository.create(storage)
    (tmp_path / "repo").unlink()  # as if the process had died before the last step
    if engine is icechunk:
        with pytest.raises(icechunk.IcechunkError) as caught:
            engine.Repository.create(storage)
        assert caught.value.kind == "parent-directory-not-clean"
        return
    assert not engine.Repository.create(storage).verify().errors
    (tmp_path / "repo").unlink()
    (tmp_path / "something").write_text("else")
    with pytest.raises(frazil.InvalidInputError):
        engine.Repository.create(storage)


def test_nodes_below_an_array_go_with_it(tmp_path: Path) -> None:
    """The reference writes such a hierarchy, and keeps the node when the array is deleted."""
    storages = [m.local_filesystem_storage(str(tmp_path)) for m in (icechunk, frazil)]
    theirs = icechunk.Repository.create(storages[0]).writable_session("main")
    zarr.create_array(theirs.store, name="a", shape=4, chunks=1, dtype="i4")
    sync(theirs.store.set("a/below/zarr.json", GROUP))
    theirs.commit("a node below an array")
    session = frazil.Repository.open(storages[1]).writable_session("main")
    sync(session.store.delete("a/zarr.json"))
    assert session.status().deleted_arrays == {"/a"}
    assert session.status().deleted_groups == {"/a/below"}


def test_a_directory_without_a_node_is_deleted_with_what_is_below(repo: frazil.Repository) -> None:
    session = repo.writable_session("main")
    sync(session.store.set("no/node/here/zarr.json", GROUP))
    sync(session.store.delete("no/node/zarr.json"))
    assert session.status().new_groups == {"/no/node/here"}
    sync(session.store.delete_dir("no/node"))
    assert session.status().is_empty()


def test_a_session_is_made_only_if_its_snapshot_can_be_read(tmp_path: Path) -> None:
    repo = frazil.Repository.create(frazil.local_filesystem_storage(str(tmp_path)))
    session = repo.writable_session("main")
    zarr.create_group(session.store)
    snapshot = session.commit("a group")
    (tmp_path / "snapshots" / snapshot).unlink()
    other = frazil.Repository.open(frazil.local_filesystem_storage(str(tmp_path)))
    for begin in (other.readonly_session, other.writable_session):
        with pytest.raises(frazil.StorageError, match=snapshot) as caught:
            begin("main")
        assert caught.value.kind == "object-not-found"


def test_names_in_the_table_of_the_changelog_can_be_imported() -> None:
    page = (Path(__file__).parents[2] / "docs" / "differences.md").read_text()
    table = page.partition("## The reference's changelog")[2].partition("\n## ")[0]
    names = re.findall(r"`(frazil\.[\w.]+)`", table)
    assert len(names) > 25
    for name in names:
        pkgutil.resolve_name(name)


def test_every_row_of_the_changelog_says_what_became_of_it() -> None:
    page = (Path(__file__).parents[2] / "docs" / "differences.md").read_text()
    table = page.partition("## The reference's changelog")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| 2.")]
    assert len(rows) > 60
    assert [row for row in rows if len(row) != 3 or not row[2]] == []
