"""Copies of repositories: whole, of some refs or paths, by reference, and as one file."""

import asyncio
import tarfile
from pathlib import Path
from typing import Any

import icechunk
import numpy as np
import pytest
import zarr

from frazil.api import ObjectStoreConfig, Repository, S3Options, Storage, VirtualChunkContainer
from frazil.errors import (
    ConflictError,
    InvalidInputError,
    NodeNotFoundError,
    ObjectNotFoundError,
    ReadOnlyError,
    RefNotFoundError,
    StorageError,
)
from frazil.objectstore.archive import ArchiveStore
from frazil.objectstore.credentials import LocalFileSystemAccess
from frazil.objectstore.local import LocalStore
from frazil.objectstore.memory import MemoryStore
from frazil.objectstore.protocol import ObjectStore
from frazil.objectstore.wrappers import Counting, ReadOnly, Verb
from frazil.testing.hooked_store import HookedStore
from tests.unit.maintenance.moved import commit, made, opened, seen


def by_reference(path: Path, **options: Any) -> icechunk.Repository:
    storage = icechunk.local_filesystem_storage(str(path))
    return icechunk.Repository.open(storage, **options)


def keys(store: ObjectStore, prefix: str = "") -> set[str]:
    return {info.key for info in store.list(prefix)}


@pytest.mark.parametrize("spec_version", [1, 2])
def test_a_copy_is_the_same_repository_and_later_gets_only_what_is_new(
    spec_version: int, tmp_path: Path
) -> None:
    source = made(MemoryStore(), spec_version=spec_version)
    target = Counting(LocalStore(tmp_path))
    planned = source.clone_to(Storage(target), dry_run=True)
    assert keys(target) == set()
    first = source.clone_to(Storage(target), check_contents=True)
    assert (first.copied, first.bytes) == (planned.copied, planned.bytes)
    assert first.updated
    assert seen(opened(tmp_path)) == seen(source)
    assert seen(by_reference(tmp_path)) == seen(source)
    assert opened(tmp_path).spec_version == spec_version
    with pytest.raises(Exception, match=r"tag|deleted"):
        opened(tmp_path).create_tag("gone", source.lookup_branch("main"))

    target.clear()
    again = source.clone_to(Storage(target))
    assert (again.exists, again.copied, again.bytes, again.updated) == (True, 0, 0, False)
    assert target.count("put", "chunks/") == target.count("put", "snapshots/") == 0
    commit(source, "main", 9)
    more = source.clone_to(Storage(target))
    assert 0 < more.copied < first.copied
    assert target.count("put", "snapshots/") == 1
    assert seen(opened(tmp_path)) == seen(source)


def test_the_ops_log_goes_along(tmp_path: Path) -> None:
    source = made(MemoryStore())
    source.clone_to(Storage(LocalStore(tmp_path)))
    logs = [
        [(str(one.kind), one.updated_at, one.backup_path) for one in repo.ops_log()]
        for repo in (source, opened(tmp_path))
    ]
    assert logs[0] == logs[1]


def test_damage_at_the_target_is_repaired_and_found_if_asked(tmp_path: Path) -> None:
    source = made(MemoryStore())
    target = LocalStore(tmp_path)
    source.clone_to(Storage(target))
    short, same = sorted(keys(target, "chunks/"))[:2]
    target.put(short, b"cut off")
    assert source.clone_to(Storage(target)).copied == 1
    target.put(same, bytes(len(target.get(same).data)))
    assert source.clone_to(Storage(target)).copied == 0
    with pytest.raises(StorageError, match=same):
        source.clone_to(Storage(target), check_contents=True)


def test_a_target_with_commits_of_its_own_is_left_alone() -> None:
    source, target = made(MemoryStore()), MemoryStore()
    source.clone_to(Storage(target))
    own = commit(opened(target), "main", 5)
    with pytest.raises(ConflictError, match=own):
        source.clone_to(Storage(target))
    assert opened(target).lookup_branch("main") == own
    with pytest.raises(ConflictError, match="version 2"):
        made(MemoryStore(), spec_version=1).clone_to(Storage(target))


def test_nothing_is_published_if_an_object_is_missing() -> None:
    source, target = made(store := MemoryStore()), MemoryStore()
    lost = min(keys(store, "chunks/"))
    store.delete([lost])
    with pytest.raises(ObjectNotFoundError, match=lost):
        source.clone_to(Storage(target))
    assert keys(target) == set()


def test_a_copy_that_did_not_arrive_is_not_published() -> None:
    class Forgetful(MemoryStore):
        def put(self, key: str, data: Any, **options: Any) -> str:
            return super().put(key, b"" if key.startswith("manifests/") else data, **options)

    target = Forgetful()
    with pytest.raises(StorageError, match="did not arrive"):
        made(MemoryStore()).clone_to(Storage(target))
    assert not Repository.exists(Storage(target))


@pytest.mark.parametrize("spec_version", [1, 2])
def test_some_refs_bring_what_they_lead_to(spec_version: int, tmp_path: Path) -> None:
    source = made(MemoryStore(), spec_version=spec_version)
    target = LocalStore(tmp_path)
    done = source.clone_to(Storage(target), refs=["v1"])
    copy = opened(tmp_path)
    assert (copy.list_branches(), copy.list_tags()) == ({"main"}, {"v1"})
    assert copy.lookup_branch("main") == source.lookup_tag("v1")
    assert seen(by_reference(tmp_path))["tag v1"] == seen(source)["tag v1"]
    assert done.snapshots == len(keys(target, "snapshots/")) == 4
    again = source.clone_to(Storage(target), refs=["v1"])
    assert (again.copied, again.updated) == (0, False)
    with pytest.raises(RefNotFoundError, match="nope"):
        source.clone_to(Storage(MemoryStore()), refs=["nope"])
    with pytest.raises(RefNotFoundError):
        source.clone_to(Storage(MemoryStore()), refs=[])


@pytest.mark.parametrize("spec_version", [1, 2])
def test_some_paths_bring_their_history_and_chunks(spec_version: int, tmp_path: Path) -> None:
    source = made(MemoryStore(), spec_version=spec_version)
    target = LocalStore(tmp_path)
    planned = source.clone_to(Storage(target), paths=["g0", "/h/i2"], dry_run=True)
    assert keys(target) == set()
    done = source.clone_to(Storage(target), paths=["g0", "/h/i2"])
    assert (planned.copied, planned.bytes) == (done.copied, done.bytes)
    whole, part = seen(source, ids=False), seen(by_reference(tmp_path), ids=False)
    assert part.keys() == whole.keys()
    wanted = {"g0", "g0/native", "h", "h/i2"}
    for ref, history in whole.items():
        assert part[ref] == [
            (*about, {path: node for path, node in nodes.items() if path in wanted})
            for *about, nodes in history
        ]
    every = keys(source.storage.store, "chunks/")
    assert 1 < len(keys(target, "chunks/")) == done.copied < len(every)
    copy = opened(tmp_path)
    ids = [info.id for info in copy.ancestry(branch="main")]
    diff = copy.diff(from_snapshot_id=ids[-1], to_snapshot_id=ids[0])
    assert diff.new_arrays == {"/g0/native", "/h/i2"}
    commit(source, "main", 9)
    more = source.clone_to(Storage(target), paths=["g0", "/h/i2"])
    assert 0 < more.copied < done.copied
    commit(opened(tmp_path), "dev", 11)  # it is a repository like any other
    with pytest.raises(ConflictError):
        source.clone_to(Storage(target), paths=["g0", "/h/i2"])
    with pytest.raises(NodeNotFoundError, match="/nope"):
        source.clone_to(Storage(MemoryStore()), paths=["g0", "nope"])


def test_a_shallow_copy_has_the_history_and_refers_to_the_chunks(tmp_path: Path) -> None:
    source = made(LocalStore(tmp_path / "source"))
    target = LocalStore(tmp_path / "target")
    done = source.clone_to(Storage(target), shallow=True)
    assert (done.copied, keys(target, "chunks/")) == (0, set())
    prefix = f"file://{tmp_path}/source/chunks/"
    by_frazil = Repository.open(
        Storage(target), authorize_virtual_chunk_access={prefix: LocalFileSystemAccess()}
    )
    assert seen(by_frazil, ids=False) == seen(source, ids=False)
    credentials = icechunk.containers_credentials(
        {prefix: icechunk.credentials.LocalFileSystemAccess}
    )
    theirs = by_reference(tmp_path / "target", authorize_virtual_chunk_access=credentials)
    assert seen(theirs, ids=False) == seen(source, ids=False)
    commit(source, "main", 9)
    assert source.clone_to(Storage(target), shallow=True).updated
    with pytest.raises(InvalidInputError, match="container"):
        made(MemoryStore()).clone_to(Storage(MemoryStore()), shallow=True)
    given = VirtualChunkContainer("s3://b/chunks/", ObjectStoreConfig.S3Compatible(S3Options()))
    made(MemoryStore()).clone_to(Storage(MemoryStore()), shallow=True, container=given)


def test_a_read_only_target_is_refused() -> None:
    with pytest.raises(ReadOnlyError):
        made(MemoryStore()).clone_to(Storage(ReadOnly(MemoryStore())))


def test_a_place_with_other_things_in_it_is_refused(tmp_path: Path) -> None:
    source = made(LocalStore(tmp_path / "source"))
    for place in (tmp_path / "source", tmp_path / "source" / "copy", tmp_path):
        for options in ({}, {"paths": ["g0"]}):
            with pytest.raises(InvalidInputError, match="source"):
                source.clone_to(Storage(LocalStore(place)), **options)  # type: ignore[arg-type]  # either
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    with pytest.raises(InvalidInputError, match="thesis"):
        source.clone_to(Storage(LocalStore(tmp_path / "mine")))


# Bundles


@pytest.mark.parametrize("spec_version", [1, 2])
def test_a_bundle_is_a_repository_in_one_file(spec_version: int, tmp_path: Path) -> None:
    source = made(MemoryStore(), spec_version=spec_version)
    path = tmp_path / "all.bundle"
    planned = source.export_bundle(path, dry_run=True)
    assert not path.exists()
    done = source.export_bundle(path)
    assert (planned.copied, planned.bytes) == (done.copied, done.bytes)
    read = Repository.open_bundle(path)
    assert seen(read) == seen(source)
    with pytest.raises(ReadOnlyError):
        read.writable_session("main")
    Repository.import_bundle(path, Storage(LocalStore(tmp_path / "copy")))
    assert seen(by_reference(tmp_path / "copy")) == seen(source)
    with tarfile.open(path) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    assert seen(by_reference(tmp_path / "unpacked")) == seen(source)
    assert not list(tmp_path.glob(".*partial"))


@pytest.mark.parametrize("spec_version", [1, 2])
def test_an_increment_brings_what_is_new_to_those_who_have_the_rest(
    spec_version: int, tmp_path: Path
) -> None:
    source = made(MemoryStore(), spec_version=spec_version)
    target = LocalStore(tmp_path / "target")
    first = source.export_bundle(tmp_path / "first.bundle", refs=["main", "v1"])
    Repository.import_bundle(tmp_path / "first.bundle", Storage(target))
    opened(target).create_branch("own", opened(target).lookup_tag("v1"))
    own = commit(opened(target), "own", 77)

    commit(source, "main", 9)
    source.create_tag("v2", source.lookup_branch("main"))
    since = [source.lookup_tag("v1")]
    more = source.export_bundle(tmp_path / "more.bundle", since=since)
    assert 0 < more.copied < first.copied
    with pytest.raises(InvalidInputError, match=since[0]):
        Repository.import_bundle(tmp_path / "more.bundle", Storage(MemoryStore()))
    planned = Repository.import_bundle(tmp_path / "more.bundle", Storage(target), dry_run=True)
    assert "v2" not in opened(target).list_tags()
    done = Repository.import_bundle(tmp_path / "more.bundle", Storage(target))
    assert done.copied == planned.copied > 0
    assert done.updated
    for repo in (opened(target), by_reference(tmp_path / "target")):
        found = seen(repo)
        expected = seen(source)
        assert {name: found[name] for name in expected} == expected
        assert repo.lookup_branch("own") == own
    again = Repository.import_bundle(tmp_path / "more.bundle", Storage(target))
    assert (again.copied, again.updated) == (0, False)

    ahead = commit(opened(target), "main", 88)
    with pytest.raises(ConflictError, match="'main'"):
        Repository.import_bundle(tmp_path / "more.bundle", Storage(target))
    assert opened(target).lookup_branch("main") == ahead


def test_a_bundle_goes_into_a_repository_that_is_still_empty(tmp_path: Path) -> None:
    source, target = made(MemoryStore()), MemoryStore()
    source.export_bundle(tmp_path / "b")
    Repository.create(Storage(target))
    Repository.import_bundle(tmp_path / "b", Storage(target))
    found, expected = seen(opened(target)), seen(source)
    assert found.keys() == expected.keys()
    for ref, history in expected.items():
        assert found[ref][:-1] == history[:-1]  # each began at a time of its own


def test_an_export_that_fails_leaves_no_file(tmp_path: Path) -> None:
    def fail(verb: Verb, key: str) -> None:
        if verb in {"get", "get_ranges"} and key.startswith("chunks/"):
            raise StorageError("no")

    source = made(store := HookedStore(MemoryStore()))
    (tmp_path / "b").write_text("an older one")
    store.before = fail
    with pytest.raises(StorageError):
        source.export_bundle(tmp_path / "b")
    assert (tmp_path / "b").read_text() == "an older one"
    assert [one.name for one in tmp_path.iterdir()] == ["b"]


def test_a_damaged_bundle_is_noticed(tmp_path: Path) -> None:
    source = made(MemoryStore())
    path = tmp_path / "b"
    source.export_bundle(path)
    good = path.read_bytes()
    archive = ArchiveStore(path)
    chunk = min(keys(archive, "chunks/"))
    at = int(archive.index.offset[archive.index.first_from(chunk.encode())])
    path.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
    with pytest.raises(StorageError, match=chunk):
        Repository.import_bundle(path, Storage(MemoryStore()))
    for short in (good[:-600], good[:5000], b"", b"x" * 4096):
        path.write_bytes(short)
        with pytest.raises((StorageError, Exception), match=r"archive|cut off"):
            Repository.import_bundle(path, Storage(MemoryStore()))


def test_packed_chunks_are_copied_as_they_are(tmp_path: Path) -> None:
    """Many references to one object are one object."""
    source = made(MemoryStore())
    session = source.writable_session("main")
    array = zarr.create_array(session.store, name="p", shape=(64, 600), chunks=(1, 600), dtype="f8")
    array[...] = np.arange(64 * 600).reshape(64, 600)
    session.commit("many")
    source.pack(branch="main")
    source.clone_to(Storage(LocalStore(tmp_path)))
    np.testing.assert_array_equal(
        zarr.open_array(by_reference(tmp_path).readonly_session("main").store, path="p")[...],
        np.arange(64 * 600).reshape(64, 600),
    )


def test_every_step_can_be_waited_for(tmp_path: Path) -> None:
    """The twins for event loops do the same."""

    async def move() -> tuple[Repository, int]:
        source = made(MemoryStore(), spec_version=1)
        await source.migrate_async()
        current = await Repository.open_async(source.storage)
        files = (await current.confirm_migration_async()).files
        await current.clone_to_async(Storage(MemoryStore()))
        await current.export_bundle_async(tmp_path / "b")
        await Repository.import_bundle_async(tmp_path / "b", Storage(LocalStore(tmp_path / "c")))
        return await Repository.open_bundle_async(tmp_path / "b"), files

    read, files = asyncio.run(move())
    assert files == 5
    assert seen(read) == seen(opened(tmp_path / "c"))


def test_progress_is_told(tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    source = made(MemoryStore())
    source.clone_to(Storage(LocalStore(tmp_path)), progress=lambda *each: told.append(each))
    source.clone_to(Storage(MemoryStore()), paths=["g0"], progress=lambda *each: told.append(each))
    assert {doing for doing, _, _ in told} >= {
        "reading snapshots",
        "copying chunks",
        "writing manifests",
    }
    assert all(0 <= done <= total for _, done, total in told)


@pytest.mark.parametrize(
    ("refs", "branches", "tags"),
    [
        (["v1"], {"main", "v1"}, {"v1"}),
        (["branch:v1"], {"main", "v1"}, set()),
        (["tag:v1"], {"main"}, {"v1"}),
        (["branch:main", "tag:v1"], {"main"}, {"v1"}),
    ],
)
def test_refs_of_one_name_are_chosen_by_their_kind(
    refs: list[str], branches: set[str], tags: set[str]
) -> None:
    """A name means both; `branch:` and `tag:` mean one of them."""
    source = Repository.create(Storage(MemoryStore()))
    tips = []
    for name in ("one", "two"):
        session = source.writable_session("main")
        zarr.create_group(session.store, path=name)
        tips.append(session.commit(name))
    source.create_branch("v1", tips[0])
    source.create_tag("v1", tips[1])
    target = MemoryStore()
    source.clone_to(Storage(target), refs=refs)
    copy = Repository.open(Storage(target))
    assert (copy.list_branches(), copy.list_tags()) == (branches, tags)
    assert "v1" not in branches or copy.lookup_branch("v1") == tips[0]
    assert "v1" not in tags or copy.lookup_tag("v1") == tips[1]
    assert copy.lookup_branch("main") == tips[0 if refs[0] in {"v1", "branch:v1"} else 1]
