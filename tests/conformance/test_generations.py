"""Repositories of every generation before version 1, opened as a user does."""

import hashlib
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from frazil.api import Repository, local_filesystem_storage
from frazil.errors import FormatError, RefNotFoundError, SnapshotNotFoundError
from frazil.format.chunk_refs import RefKind
from frazil.format.generation import Generation
from frazil.generations.older_files import AlphaFiles, compute_log
from frazil.ids import SnapshotId
from frazil.paths import NodePath
from tests.conformance.generations import (
    ARCHIVES,
    description,
    expectations,
    put,
    repository_files,
)

LATE = [name for name in ARCHIVES if name[:3] in {"A2h", "A2i", "A2k", "A3a", "A3b", "A3c", "A3d"}]
LATE += [name for name in ARCHIVES if name.startswith(("A3e", "V1pre"))]
SHARED = 19  # characters of an id of 16 bytes that are in its first 12 too
WRITES: dict[str, Callable[[Repository, str], object]] = {
    "a session": lambda repo, _: repo.writable_session("main"),
    "a branch": lambda repo, tip: repo.create_branch("new", tip),
    "a tag": lambda repo, tip: repo.create_tag("new", tip),
    "a reset": lambda repo, tip: repo.reset_branch("main", tip),
    "a deletion": lambda repo, _: repo.delete_tag("it works!"),
    "a configuration": lambda repo, _: repo.save_config(),
    "a status": lambda repo, _: repo.set_metadata({"a": 1}),
}


@pytest.fixture(autouse=True)
def _no_notes_on_containers() -> None:
    """Old configurations have containers that nobody could ever use, and opening says so."""
    logging.getLogger("frazil").setLevel(logging.ERROR)


def opened(name: str, root: Path) -> Repository:
    return Repository.open(local_filesystem_storage(str(put(repository_files(name), root))))


def old_files(repository: Repository) -> AlphaFiles:
    files = repository.engine.files
    assert isinstance(files, AlphaFiles)
    return files


def test_there_are_repositories_to_look_at() -> None:
    assert len(ARCHIVES) == 17


@pytest.mark.parametrize("name", ARCHIVES)
def test_the_generation_is_recognised(name: str, tmp_path: Path) -> None:
    repository = opened(name, tmp_path)
    assert repository.generation == name.partition("-")[0]
    assert repository.spec_version == 1
    assert name.partition("-")[0] in str(repository.engine.generation)


@pytest.mark.parametrize("name", ARCHIVES)
def test_branches_and_tags_are_as_described(name: str, tmp_path: Path) -> None:
    about, repository = description(name), opened(name, tmp_path)
    assert repository.list_branches() == set(about["branches"])
    assert repository.list_tags() == set(about["tags"])
    for branch, tip in about["branches"].items():
        assert repository.lookup_branch(branch)[:SHARED] == tip[:SHARED]
    for tag, target in about["tags"].items():
        assert repository.lookup_tag(tag)[:SHARED] == target[:SHARED]
    for tag in about["deleted_tags"]:
        with pytest.raises(RefNotFoundError):
            repository.lookup_tag(tag)


@pytest.mark.parametrize("name", ARCHIVES)
def test_histories_are_as_described(name: str, tmp_path: Path) -> None:
    repository, told = opened(name, tmp_path), 0
    for ref, expected in expectations(name).items():
        if expected.messages is not None:
            history = list(repository.ancestry(**which(ref)))
            assert [info.message for info in history] == expected.messages
            assert sorted(history, key=lambda info: info.written_at, reverse=True) == history
            told += 1
    assert told


def which(ref: str) -> dict[str, Any]:
    kind, _, name = ref.partition(":")
    return {kind: name}


@pytest.mark.parametrize("name", ARCHIVES)
def test_arrays_are_as_described(name: str, tmp_path: Path) -> None:
    repository, compared = opened(name, tmp_path), 0
    for ref, expected in expectations(name).items():
        session = repository.readonly_session(**which(ref))
        for path, told in expected.arrays.items():
            array = zarr.open_array(session.store, path=path[1:], mode="r")
            if told.dtype is not None:
                assert (str(array.dtype), array.shape) == (told.dtype, told.shape)
            values = np.array(told.first_values, dtype=array.dtype)
            for position, value in zip(np.ndindex(array.shape), values, strict=False):
                if not is_virtual(session.engine, path, position, array.chunks):
                    np.testing.assert_array_equal(array[position], value)
                    compared += 1
    assert compared >= 10


def is_virtual(session: Any, path: str, position: tuple[int, ...], chunks: tuple[int, ...]) -> bool:
    index = tuple(at // size for at, size in zip(position, chunks, strict=True))
    node = session.node(NodePath(path))
    for refs in session.chunk_refs(node.path):
        row = refs.find(index)
        if row >= 0:
            return bool(refs.kind[row] == RefKind.VIRTUAL)
    return False


@pytest.mark.parametrize("name", ARCHIVES)
def test_virtual_chunks_are_listed(name: str, tmp_path: Path) -> None:
    session = opened(name, tmp_path).readonly_session("main")
    places = set(session.all_virtual_chunk_locations())
    assert places
    assert all(place.startswith(("file:///virtual-data/", "s3://testbucket/")) for place in places)


@pytest.mark.parametrize("name", ARCHIVES)
def test_every_snapshot_of_a_history_can_be_read(name: str, tmp_path: Path) -> None:
    repository = opened(name, tmp_path)
    counts = []
    for info in repository.ancestry(branch="main"):
        session = repository.readonly_session(snapshot_id=info.id)
        counts.append(len(list(session.engine.nodes())))
        assert repository.list_manifest_files(info.id) is not None
        exactly = repository.readonly_session("main", as_of=info.written_at)
        assert exactly.snapshot_id == info.id
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] == 0
    with pytest.raises(SnapshotNotFoundError):
        repository.readonly_session("main", as_of=datetime(2000, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize("name", ARCHIVES)
def test_a_diff_lists_everything_since_the_first_commit(name: str, tmp_path: Path) -> None:
    repository = opened(name, tmp_path)
    newest, *_, first = repository.ancestry(branch="main")
    found = repository.diff(from_snapshot_id=first.id, to_snapshot_id=newest.id)
    nodes = {node.path.text: node for node in repository.readonly_session("main").engine.nodes()}
    assert found.new_arrays == {path for path, node in nodes.items() if node.is_array}
    assert found.new_groups == {path for path, node in nodes.items() if not node.is_array}
    assert found.updated_chunks
    assert not (found.updated_arrays | found.updated_groups)


@pytest.mark.parametrize("name", LATE)
def test_logs_that_were_kept_say_what_comparing_snapshots_says(name: str, tmp_path: Path) -> None:
    files, compared = old_files(repository := opened(name, tmp_path)), 0
    for branch in repository.list_branches():
        for info in list(repository.ancestry(branch=branch))[:-1]:
            snapshot = SnapshotId.parse(info.id)
            after = files.fetch_snapshot(snapshot)
            assert after.parent_id is not None
            before = files.fetch_snapshot(after.parent_id)
            made_up = compute_log(snapshot, before, after, files._refs_of)
            kept = files.fetch_log(snapshot)
            for listed, ids in kept.node_lists():
                assert np.array_equal(getattr(made_up, listed), ids), (listed, info.message)
            assert made_up.updated_chunks.keys() == kept.updated_chunks.keys()
            for node, index in kept.updated_chunks.items():
                assert rows(made_up.updated_chunks[node]) == rows(index)
            compared += 1
    assert compared >= 4


def rows(index: Any) -> list[tuple[int, ...]]:
    return sorted(map(tuple, index.tolist()))


@pytest.mark.parametrize("name", [name for name in ARCHIVES if not name.startswith("A2e")])
def test_what_is_not_described_is_not_written(name: str, tmp_path: Path) -> None:
    repository, before = opened(name, tmp_path), fingerprint(tmp_path)
    for what, write in WRITES.items():
        with pytest.raises(FormatError) as caught:
            write(repository, repository.lookup_branch("main"))
        assert "frazil migrate" in str(caught.value), what
    with pytest.raises(FormatError, match="frazil migrate"):
        repository.engine.store.put("snapshots/any", b"")
    with pytest.raises(FormatError, match="frazil migrate"):
        repository.engine.store.delete(["snapshots/any"])
    assert fingerprint(tmp_path) == before


def fingerprint(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize("name", ARCHIVES)
def test_files_are_found_under_the_names_they_have_now(name: str, tmp_path: Path) -> None:
    repository = opened(name, tmp_path)
    store, refs = repository.engine.store, 0
    listed = {info.key for info in store.list("chunks/")}
    session = repository.readonly_session("main").engine
    for node in filter(lambda node: node.is_array, session.nodes()):
        for found in session.chunk_refs(node.path):
            for row in np.flatnonzero(found.kind == RefKind.NATIVE).tolist():
                key = f"chunks/{found.payload(row).chunk_id}"  # type: ignore[union-attr]  # native
                assert key in listed
                assert store.head(key).size_bytes == found.length[row]
                refs += 1
    assert refs >= 3
    assert all(info.key in {each.key for each in store.list()} for info in store.list("manifests/"))


def test_a_commit_goes_on_top_of_a_repository_that_the_reference_wrote(tmp_path: Path) -> None:
    [name] = [name for name in ARCHIVES if name.startswith("A2e")]
    repository = opened(name, tmp_path)
    session = repository.writable_session("my-branch")
    array = zarr.open_array(session.store, path="group1/small_chunks")
    array[4] = 1
    session.commit("by frazil", {"who": "frazil"})
    again = Repository.open(local_filesystem_storage(str(tmp_path)))
    assert again.generation == Generation.A2E
    newest, *older = again.ancestry(branch="my-branch")
    assert (newest.message, newest.metadata) == ("by frazil", {"who": "frazil"})
    assert [info.message for info in older] == expectations(name)["branch:my-branch"].messages
    found = zarr.open_array(again.readonly_session("my-branch").store, path="group1/small_chunks")
    np.testing.assert_array_equal(found[:], [84, 84, 84, 84, 1])
    assert (tmp_path / "refs/branch.my-branch/ZZZZZZZW.json").exists()


@pytest.mark.parametrize("name", ARCHIVES)
def test_files_can_be_inspected(name: str, tmp_path: Path) -> None:
    repository = opened(name, tmp_path)
    tip = repository.lookup_branch("main")
    snapshot = repository.inspect_snapshot(tip)
    assert snapshot["commit_message"] == "set virtual chunk"
    assert snapshot["header"] == {"generation": repository.generation}
    refs = [ref["id"] for node in snapshot["nodes"] for ref in node.get("manifest_refs", ())]
    assert set(refs) <= {each["id"] for each in snapshot["manifests"]}
    manifests = [repository.inspect_manifest(each) for each in set(refs)]
    assert sum(each["total_virtual"] for each in manifests) >= 1
    assert all(
        each["total_chunk_refs"]
        == each["total_inline"] + each["total_native"] + each["total_virtual"]
        for each in manifests
    )
    log = repository.inspect_transaction_log(tip)
    assert [len(each["chunks"]) for each in log["updated_chunks"]] == [1]
    assert "main" in str(repository.ancestry_graph(branch="main"))
