"""What docs/differences.md says of frazil is so; what it says of icechunk is not tested here."""

import math
import pickle
import shutil
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.abc.store import RangeByteRequest, SuffixByteRequest
from zarr.core.buffer import default_buffer_prototype

import frazil
from frazil.paths import NodePath

PROTOTYPE = default_buffer_prototype()
GROUP = PROTOTYPE.buffer.from_bytes(b'{"zarr_format":3,"node_type":"group"}')


@pytest.fixture
def repo() -> frazil.Repository:
    return frazil.Repository.create(frazil.in_memory_storage())


@pytest.fixture
def session(repo: frazil.Repository) -> frazil.Session:
    """With an array `a` of 2 x 2 chunks, of which the first row is written."""
    session = repo.writable_session("main")
    root = zarr.create_group(session.store)
    array = root.create_array("a", shape=(4, 4), chunks=(2, 2), dtype="i4", compressors=None)
    array[:2] = 1
    return session


async def read(
    session: frazil.Session, key: str, wanted: RangeByteRequest | SuffixByteRequest
) -> bytes:
    found = await session.store.get(key, PROTOTYPE, wanted)
    assert found is not None
    return found.to_bytes()


async def test_a_suffix_of_metadata_is_its_end(session: frazil.Session) -> None:
    whole = await read(session, "zarr.json", RangeByteRequest(0, 10**6))
    assert await read(session, "zarr.json", SuffixByteRequest(3)) == whole[-3:]


@pytest.mark.parametrize(("key", "size"), [("a/c/0/0", 16), ("zarr.json", None)])
async def test_a_range_past_the_end_is_cut_off(
    session: frazil.Session, key: str, size: int | None
) -> None:
    whole = await read(session, key, RangeByteRequest(0, 10**6))
    assert size in (None, len(whole))
    assert await read(session, key, RangeByteRequest(4, 10**6)) == whole[4:]


async def test_a_key_that_is_no_zarr_key_is_absent_but_cannot_be_set(
    session: frazil.Session,
) -> None:
    assert not await session.store.exists("foo/bar")
    assert await session.store.get("foo/bar", PROTOTYPE) is None
    with pytest.raises(frazil.InvalidInputError):
        await session.store.set("foo/bar", GROUP)


async def test_a_missing_chunk_does_not_spoil_the_others(session: frazil.Session) -> None:
    there, missing = await session.store.get_partial_values(
        PROTOTYPE, [("a/c/0/0", None), ("a/c/1/1", None)]
    )
    assert there is not None
    assert missing is None


async def test_a_missing_chunk_has_no_size(session: frazil.Session) -> None:
    with pytest.raises(FileNotFoundError):
        await session.store.getsize("a/c/1/1")


@pytest.mark.parametrize("key", ["a/c/0", "a/c/0/0/0"])
async def test_a_chunk_with_other_coordinates_is_refused(session: frazil.Session, key: str) -> None:
    with pytest.raises(frazil.InvalidInputError) as caught:
        await session.store.set(key, GROUP)
    assert caught.value.kind == "invalid-chunk-index"


async def test_nothing_can_be_put_below_an_array(session: frazil.Session) -> None:
    with pytest.raises(frazil.InvalidInputError):
        await session.store.set("a/b/zarr.json", GROUP)


async def test_chunk_coordinates_are_those_there_are_each_once(
    repo: frazil.Repository, session: frazil.Session
) -> None:
    session.commit("first")
    again = repo.writable_session("main")
    zarr.open_array(again.store, path="a")[:2, :2] = 2
    await again.store.delete("a/c/0/1")
    found = [tuple(each) async for each in again.chunk_coordinates("/a")]
    assert found == [(0, 0)]


@pytest.mark.parametrize("value", [math.nan, math.inf, 2**70])
def test_metadata_that_json_cannot_hold_is_refused(session: frazil.Session, value: float) -> None:
    with pytest.raises(frazil.InvalidInputError) as caught:
        session.commit("odd", {"value": value})
    assert caught.value.kind == "bad-metadata"
    assert session.has_uncommitted_changes


@pytest.mark.parametrize("name", ["", " ", "a\nb"])
def test_names_nobody_can_type_are_refused(repo: frazil.Repository, name: str) -> None:
    tip = repo.lookup_branch("main")
    for create in (repo.create_branch, repo.create_tag):
        with pytest.raises(frazil.InvalidInputError):
            create(name, tip)


def test_a_new_repository_stores_no_configuration_of_its_backend(tmp_path: Path) -> None:
    storage = frazil.local_filesystem_storage(str(tmp_path / "repo"))
    frazil.Repository.create(storage)
    assert frazil.Repository.fetch_config(storage) is None


type Edit = Callable[[zarr.Group], object]


def rebased(
    repo: frazil.Repository, ours: Edit, theirs: Edit, solver: frazil.ConflictSolver
) -> frazil.Session:
    """Our changes over their commit, on a group `g` and an array `a` of four chunks."""
    with repo.transaction("main", message="begin") as store:
        root = zarr.create_group(store)
        root.create_group("g")
        root.create_array("a", shape=(8,), chunks=(2,), dtype="i4", compressors=None)
    session = repo.writable_session("main")
    ours(zarr.open_group(session.store, mode="r+"))
    with repo.transaction("main", message="theirs") as store:
        theirs(zarr.open_group(store, mode="r+"))
    session.rebase(solver)
    return session


def delete_g(root: zarr.Group) -> None:
    del root["g"]


def add_to_g(root: zarr.Group) -> None:
    root.create_group("g/new")


def replace_a(root: zarr.Group) -> None:
    root.create_array("a", shape=(2,), chunks=(2,), dtype="i4", overwrite=True)


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        (delete_g, add_to_g, (frazil.ConflictType.DeleteOfUpdatedGroup, "/g")),
        (add_to_g, delete_g, (frazil.ConflictType.NewNodeInInvalidGroup, "/g")),
        (replace_a, replace_a, (frazil.ConflictType.NewNodeConflictsWithExistingNode, "/a")),
    ],
    ids=["delete-add", "add-delete", "replace-replace"],
)
def test_nodes_without_parents_or_beside_each_other_are_conflicts(
    repo: frazil.Repository, ours: Edit, theirs: Edit, expected: tuple[object, str]
) -> None:
    with pytest.raises(frazil.RebaseFailedError) as caught:
        rebased(repo, ours, theirs, frazil.ConflictDetector())
    assert [(each.conflict_type, each.path) for each in caught.value.conflicts] == [expected]


def test_a_delete_that_wins_deletes_what_was_added(repo: frazil.Repository) -> None:
    session = rebased(repo, delete_g, add_to_g, frazil.BasicConflictSolver())
    session.commit("ours")
    root = zarr.open_group(repo.readonly_session("main").store, mode="r")
    assert sorted(root.keys()) == ["a"]


def test_two_appenders_are_reconciled_if_asked(repo: frazil.Repository) -> None:
    def append(length: int, start: int) -> Edit:
        def edit(root: zarr.Group) -> None:
            array = root["a"]
            assert isinstance(array, zarr.Array)
            array.resize((length,))
            array[start:] = length

        return edit

    solver = frazil.BasicConflictSolver(merge_appends=True)
    session = rebased(repo, append(12, 10), append(10, 8), solver)
    session.commit("ours")
    array = zarr.open_array(repo.readonly_session("main").store, path="a", mode="r")
    assert np.asarray(array[8:]).tolist() == [10, 10, 12, 12]


def test_a_read_only_session_is_not_flushed(repo: frazil.Repository) -> None:
    with pytest.raises(frazil.SessionStateError) as caught:
        repo.readonly_session("main").flush("no")
    assert caught.value.kind == "commit-not-allowed"


@pytest.mark.parametrize("value", [math.nan, 2**70])
def test_repository_metadata_that_json_cannot_hold_is_refused(
    repo: frazil.Repository, value: float
) -> None:
    for change in (repo.set_metadata, repo.update_metadata):
        with pytest.raises(frazil.InvalidInputError):
            change({"value": value})


def test_default_commit_metadata_is_kept_when_reopening(repo: frazil.Repository) -> None:
    repo.set_default_commit_metadata({"who": "me"})
    assert repo.reopen().default_commit_metadata() == {"who": "me"}


def test_a_cache_of_another_size_begins_empty_when_reopening(tmp_path: Path) -> None:
    no_preload = frazil.ManifestConfig(preload=frazil.ManifestPreloadConfig(max_total_refs=0))
    storage = frazil.local_filesystem_storage(tmp_path)
    repo = frazil.Repository.create(storage, frazil.RepositoryConfig(manifest=no_preload))
    with repo.transaction("main", message="an array") as store:
        zarr.create_array(store, data=np.ones(2, "i4"), chunks=(1,), compressors=None)
    shutil.rmtree(tmp_path / "manifests")

    def read(config: frazil.RepositoryConfig | None) -> object:
        session = repo.reopen(config).readonly_session("main")
        return np.asarray(zarr.open_array(session.store, mode="r")[:]).tolist()

    assert read(None) == [1, 1]
    with pytest.raises(frazil.IcechunkError, match="manifests/"):
        read(frazil.RepositoryConfig(caching=frazil.CachingConfig(num_chunk_refs=99)))


def test_an_offline_repository_is_read_and_not_written(repo: frazil.Repository) -> None:
    repo.set_status(frazil.RepoStatus(frazil.RepoAvailability.offline))
    assert repo.readonly_session("main").read_only
    with pytest.raises(frazil.ReadOnlyError):
        repo.writable_session("main")


def test_a_configuration_that_cannot_work_is_refused() -> None:
    rules = frazil.ManifestSplittingConfig.from_dict(
        {
            frazil.ManifestSplitCondition.path_matches("("): {
                frazil.ManifestSplitDimCondition.Any(): 1
            }
        }
    )
    for config in (
        frazil.RepositoryConfig(max_concurrent_requests=0),
        frazil.RepositoryConfig(manifest=frazil.ManifestConfig(splitting=rules)),
    ):
        with pytest.raises(frazil.InvalidInputError):
            frazil.Repository.create(frazil.in_memory_storage(), config)


def test_a_graph_has_columns_only_where_there_are_commits(repo: frazil.Repository) -> None:
    tip = repo.lookup_branch("main")
    repo.create_branch("idle", tip)
    repo.create_tag("v1", tip)
    expected = f"● {tip[:8]} (main, idle, v1) Repository initialized\n"
    assert str(repo.ancestry_graph(plain=True)) == expected
    assert str(repo.ancestry_graph(tag="v1", plain=True)) == expected


def test_a_configuration_prints_what_is_known_without_the_storage() -> None:
    lines = str(frazil.RepositoryConfig(inline_chunk_threshold_bytes=7)).splitlines()
    assert "inline_chunk_threshold_bytes: 7" in lines
    assert "    level: 3 (default)" in lines
    assert "        max_tries: 100" in lines
    assert "storage: default" in lines


# Forks and merges


def refused(session: frazil.Session, *forks: frazil.ForkSession) -> str:
    """Why they were not merged; the session is as it was."""
    before = repr(session.status())
    with pytest.raises(frazil.SessionStateError) as caught:
        session.merge(*forks)
    assert caught.value.kind == "merge-failed"
    assert repr(session.status()) == before
    return str(caught.value)


def test_two_writers_of_one_chunk_are_found_out(session: frazil.Session) -> None:
    forks = [session.fork(), session.fork()]
    for value, fork in enumerate(forks):
        zarr.open_array(fork.store, path="a")[2:] = value + 5
    assert refused(session, *forks).endswith("/a: [1, 0], [1, 1]")
    same = session.fork()
    zarr.open_array(same.store, path="a")[2:] = 5
    session.merge(forks[0], same)
    assert np.asarray(zarr.open_array(session.store, path="a")[2:]).tolist() == [[5] * 4] * 2


def test_a_fork_may_change_what_its_parent_had_pending(session: frazil.Session) -> None:
    fork = session.fork()
    zarr.open_array(fork.store, path="a").update_attributes({"unit": "K"})
    session.merge(fork)
    assert dict(zarr.open_array(session.store, path="a").attrs) == {"unit": "K"}


def test_copies_of_a_fork_may_be_merged_along_with_it(session: frazil.Session) -> None:
    fork = session.fork()
    zarr.open_group(fork.store).create_group("new")
    session.merge(fork, pickle.loads(pickle.dumps(fork)))
    assert "new" in zarr.open_group(session.store)


def test_nodes_that_do_not_go_together_are_not_merged(session: frazil.Session) -> None:
    group, array, below = session.fork(), session.fork(), session.fork()
    zarr.open_group(group.store).create_group("new")
    zarr.open_group(array.store).create_array("new", shape=1, dtype="i4")
    zarr.open_group(below.store).create_array("new/x", shape=1, dtype="i4")
    assert "/new" in refused(session, group, array)
    assert "/new" in refused(session, array, below)


def test_chunks_that_an_array_has_no_place_for_are_not_merged(session: frazil.Session) -> None:
    cut, write = session.fork(), session.fork()
    zarr.open_array(cut.store, path="a").resize((4, 2))
    zarr.open_array(write.store, path="a")[2:, 2:] = 1
    assert "/a" in refused(session, cut, write)


def test_only_forks_of_the_same_snapshot_are_merged(
    repo: frazil.Repository, session: frazil.Session
) -> None:
    fork = session.fork()
    session.commit("moved on")
    other: Any = repo.writable_session("main")
    assert "snapshot" in refused(other, fork)
    with pytest.raises(frazil.SessionStateError) as caught:
        other.merge(repo.writable_session("main"))
    assert caught.value.kind == "merge-not-allowed"


def test_a_fork_of_another_new_repository_is_not_merged() -> None:
    first, second = (
        frazil.Repository.create(frazil.in_memory_storage()).writable_session("main")
        for _ in range(2)
    )
    fork = first.fork()
    zarr.create_group(fork.store)
    assert "another repository" in refused(second, fork)
    first.merge(fork)
    assert first.has_uncommitted_changes


def test_a_fork_stores_nothing_and_is_writable(tmp_path: Path) -> None:
    storage = frazil.local_filesystem_storage(str(tmp_path / "repo"))
    session = frazil.Repository.create(storage).writable_session("main")
    zarr.create_group(session.store)
    before = sorted(tmp_path.rglob("*"))
    fork = session.fork()
    assert sorted(tmp_path.rglob("*")) == before
    assert fork.mode == frazil.SessionMode.writable
    assert fork.snapshot_id == session.snapshot_id
    with pytest.raises(frazil.SessionStateError) as caught:
        fork.flush("no")
    assert caught.value.kind == "commit-not-allowed"


# Object stores: most of what is said of them is tested in tests/servers and tests/unit/objectstore


def test_a_function_that_gets_credentials_for_google_is_used() -> None:
    made = frazil.gcs_credentials(get_credentials=_google)
    assert isinstance(made, frazil.GcsCredentials.Refreshable)
    assert made.fetch() == _google()


def _google() -> frazil.GcsBearerCredential:
    return frazil.GcsBearerCredential("token")


@pytest.mark.parametrize("algorithm", list(frazil.ChecksumAlgorithm), ids=lambda one: one.name)
def test_a_checksum_that_cannot_be_computed_is_refused(algorithm: frazil.ChecksumAlgorithm) -> None:
    known = algorithm.name in {"Sha256", "Crc64Nvme"}
    with nullcontext() if known else pytest.raises(frazil.StorageError):
        frazil.s3_storage(bucket="b", prefix="p", checksum_algorithm=algorithm)


def test_urls_are_shown_without_what_may_be_secret() -> None:
    url = "http://me:password@127.0.0.1:1/data?token=secret"
    for storage in (frazil.http_storage(url), frazil.redirect_storage(url)):
        assert "http://127.0.0.1:1/data" in repr(storage)
        assert not [word for word in ("me:", "password", "secret") if word in repr(storage)]


def test_small_chunks_of_one_assignment_share_an_object(tmp_path: Path) -> None:
    repo = frazil.Repository.create(frazil.local_filesystem_storage(tmp_path))
    session = repo.writable_session("main")
    array = zarr.create_array(
        session.store, name="a", shape=(5000,), chunks=(1000,), dtype="f8", compressors=None
    )
    array[:] = 1.5
    assert len(list((tmp_path / "chunks").iterdir())) == 1
    assert zarr.config.get("codec_pipeline.path").startswith("frazil.")
    others = zarr.create_array({}, shape=3, dtype="i4").async_array
    assert type(others.codec_pipeline).__module__.startswith("zarr.")


def manifests_of(session: frazil.Session, path: str) -> set[str]:
    node = session.engine.node(NodePath(path))
    assert node.array is not None
    return {str(ref.id) for ref in node.array.manifests}


def set_rows(session: frazil.Session, first: int, rows: int) -> None:
    count = rows * 1000
    session.store.set_virtual_refs_arr(
        "v",
        (rows, 1000),
        ["s3://bucket/file"] * count,
        np.arange(count, dtype=np.uint64),
        np.ones(count, dtype=np.uint64),
        validate_containers=False,
        arr_offset=(first, 0),
    )


@pytest.mark.parametrize("rules", [None, {}], ids=["none", "that nothing be split"])
def test_an_array_of_many_references_is_split_unless_rules_say_otherwise(
    rules: dict[Any, Any] | None,
) -> None:
    splitting = None if rules is None else frazil.ManifestSplittingConfig.from_dict(rules)
    config = frazil.RepositoryConfig.default()
    config.manifest = frazil.ManifestConfig(splitting=splitting)
    repo = frazil.Repository.create(frazil.in_memory_storage(), config=config)
    session = repo.writable_session("main")
    array = zarr.create_array(session.store, name="v", shape=(128, 1000), chunks=(1, 1), dtype="i1")
    set_rows(session, 0, 128)
    session.commit("128 rows")
    before = manifests_of(session, "/v")
    session = repo.writable_session("main")
    array = zarr.open_array(session.store, path="v")
    array.resize((130, 1000))
    set_rows(session, 128, 2)
    session.commit("two more")
    after = manifests_of(session, "/v")

    assert len(before) == (2 if rules is None else 1)
    assert len(before & after) == (2 if rules is None else 0)


@pytest.mark.parametrize(("level", "expected"), [(None, 1), (3, 3), (9, 9)])
def test_manifests_are_compressed_less_where_no_level_is_configured(
    level: int | None, expected: int
) -> None:
    config = frazil.RepositoryConfig.default()
    config.compression = frazil.CompressionConfig(level=level)
    repo = frazil.Repository.create(frazil.in_memory_storage(), config=config)

    settings = repo.readonly_session("main").engine.files.settings

    assert settings.bulk_level == expected
    assert settings.compression_level == (level or 3)
