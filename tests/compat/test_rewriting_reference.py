"""Manifests rewritten by both engines alike; packs, and purged histories, read by the reference."""

import datetime as dt
import shutil
import tempfile
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import icechunk
import numpy as np
import numpy.typing as npt
import pytest
import zarr
from hypothesis import given, settings

import frazil
from frazil.maintenance.pack import pack, plan_pack
from tests.compat.driver import OURS, REFERENCE, Engine
from tests.compat.sides import known_name
from tests.examples_count import scaled

VALUES = np.arange(7 * 5, dtype="<i4").reshape(7, 5)


@pytest.fixture(params=[1, 2])
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """By the reference: arrays with all chunks, some, and none."""
    config = icechunk.RepositoryConfig.default()
    config.inline_chunk_threshold_bytes = 0
    repo = icechunk.Repository.create(
        icechunk.local_filesystem_storage(str(tmp_path / "made")),
        config=config,
        spec_version=request.param,
    )
    session = repo.writable_session("main")
    group = zarr.group(session.store)
    options: dict[str, Any] = {"dtype": "<i4", "compressors": None}
    full = group.create_array(
        "full", shape=(7, 5), chunks=(1, 1), dimension_names=("t", "x"), **options
    )
    full[:] = VALUES
    group.create_array("empty", shape=(10,), chunks=(1,), **options)
    some = group.create_array("some", shape=(10,), chunks=(1,), **options)
    some[3:5] = 3
    some[8] = 8
    scalar = group.create_array("scalar", shape=(), chunks=(), **options)
    scalar[...] = 5
    session.commit("first", metadata={"from": "first"})
    session = repo.writable_session("main")
    zarr.open_array(session.store, path="some")[9] = 9
    session.commit("second")
    return tmp_path / "made"


def config_of(engine: Engine, sizes: dict[Any, int] | None) -> Any:
    module = engine.module
    config = module.RepositoryConfig.default()
    if sizes is not None:
        kinds = module.ManifestSplitDimCondition
        rules = {
            kinds.Any() if key == "any" else
            kinds.Axis(key) if isinstance(key, int) else kinds.DimensionName(key): size
            for key, size in sizes.items()
        }  # fmt: skip
        config.manifest = module.ManifestConfig(
            splitting=module.ManifestSplittingConfig.from_dict(
                {module.ManifestSplitCondition.AnyArray(): rules}
            )
        )
    return config


def opened(engine: Engine, place: Path, sizes: dict[Any, int] | None = None) -> Any:
    config = config_of(engine, sizes)
    return engine.module.Repository.open(engine.storage(place), config=config)


def twins(made: Path) -> list[tuple[Engine, Path]]:
    places = []
    for engine in (OURS, REFERENCE):
        place = made.parent / engine.name
        shutil.copytree(made, place)
        places.append((engine, place))
    return places


def manifests(place: Path, snapshot: str) -> Any:
    """By path, extents and the number of references of each; and what the commit says."""
    repo = opened(REFERENCE, place)
    found = repo.inspect_snapshot(snapshot)
    sizes = {each["id"]: each["num_chunk_refs"] for each in found["manifests"]}
    refs = {
        node["path"]: [(sizes[ref["id"]], ref["extents"]) for ref in node["manifest_refs"]]
        for node in found["nodes"]
        if "manifest_refs" in node
    }
    log = repo.inspect_transaction_log(snapshot)
    changes = {key: value for key, value in log.items() if key != "header" and value}
    return refs, len(sizes), changes, found["metadata"], found["commit_message"]


def history(place: Path) -> list[str]:
    return [info.message for info in opened(REFERENCE, place).ancestry(branch="main")]


def values(group: zarr.Group, name: str) -> npt.NDArray[Any]:
    array = group[name]
    assert isinstance(array, zarr.Array)
    return np.asarray(array[...])


def require_values(place: Path, *, engines: tuple[Engine, ...] = (OURS, REFERENCE)) -> None:
    for engine in engines:
        group = zarr.open_group(opened(engine, place).readonly_session("main").store, mode="r")
        np.testing.assert_array_equal(values(group, "full"), VALUES)
        assert values(group, "some").tolist() == [0, 0, 0, 3, 3, 0, 0, 0, 8, 9]
        assert values(group, "empty").tolist() == [0] * 10
        assert values(group, "scalar").tolist() == 5


SPLITS: list[dict[Any, int] | None] = [
    None, {0: 3}, {"any": 2}, {"x": 2}, {"t": 4, "any": 5}, {1: 1}, {0: 100},
]  # fmt: skip


@pytest.mark.parametrize("method", ["new_commit", "amend"])
def test_manifests_are_rewritten_as_the_reference_does(made: Path, method: str) -> None:
    sides = twins(made)
    version = 1 if (made / "refs").exists() else 2
    for sizes in SPLITS:
        found = []
        for engine, place in sides:
            repo = opened(engine, place, sizes)
            repo.set_default_commit_metadata({"by": "default", "a": 0})
            try:
                snapshot = repo.rewrite_manifests(
                    "rewritten",
                    branch="main",
                    metadata={"a": [1, None], "__icechunk": {"kept": True}},
                    commit_method=method,
                )
            except engine.module.IcechunkError as error:
                found.append((known_name(error), error.kind))
                continue
            assert snapshot == repo.lookup_branch("main")
            found.append((manifests(place, snapshot), history(place)))
            require_values(place)
        assert found[0] == found[1]
        assert (len(found[0][0]) == 5) == (version == 2 or method == "new_commit")


def test_arrays_that_were_cut_or_resized_are_rewritten_alike(made: Path) -> None:
    sides = twins(made)
    found = []
    for engine, place in sides:
        repo = opened(engine, place, {0: 2})
        session = repo.writable_session("main")
        full = zarr.open_array(session.store, path="full")
        full[0, 0] = 100
        full.resize((4, 5))
        zarr.open_array(session.store, path="some").resize((4,))
        session.commit("resized")
        snapshot = opened(engine, place, {0: 3}).rewrite_manifests("again", branch="main")
        found.append(manifests(place, snapshot))
    assert found[0] == found[1]


sizes_of_cells = st.dictionaries(
    st.sampled_from([0, 1, 2, "any", "t"]), st.integers(1, 3), min_size=1, max_size=3
)


@settings(max_examples=scaled(10))
@given(
    shape=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    boxes=st.lists(st.tuples(*[st.integers(0, 3), st.integers(1, 4)] * 3), min_size=1, max_size=2),
    cells=st.lists(sizes_of_cells, min_size=1, max_size=2),
    version=st.sampled_from([1, 2]),
)
def test_any_array_is_rewritten_alike_from_any_splitting_to_any_other(
    shape: list[int], boxes: list[tuple[int, ...]], cells: list[dict[Any, int]], version: int
) -> None:
    found = []
    for engine in (OURS, REFERENCE):
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder) / "repo"
            engine.module.Repository.create(engine.storage(place), spec_version=version)
            for number, box in enumerate(boxes):
                session = opened(engine, place, cells[number % len(cells)]).writable_session("main")
                array = zarr.open_array(
                    session.store, path="a", shape=shape, chunks=[1] * len(shape), dtype="i4",
                    dimension_names=["t", "x", "y"][: len(shape)], mode="a",
                )  # fmt: skip
                spans = zip(box[::2], box[1::2], strict=True)
                array[tuple(slice(at, at + size) for at, size in spans)[: len(shape)]] = number + 1
                session.commit(f"commit {number}", allow_empty=True)
            states = []
            for sizes in cells:
                repo = opened(engine, place, sizes)
                snapshot = repo.rewrite_manifests("again", branch="main")
                states.append(manifests(place, snapshot))
                group = zarr.open_group(repo.readonly_session("main").store, mode="r")
                states.append(values(group, "a").tolist())
            found.append(states)
    assert found[0] == found[1]


def test_an_empty_repository_is_rewritten_alike(tmp_path: Path) -> None:
    found = []
    for engine in (OURS, REFERENCE):
        place = tmp_path / engine.name
        repo = engine.module.Repository.create(engine.storage(place))
        snapshot = repo.rewrite_manifests("nothing", branch="main")
        found.append((manifests(place, snapshot), history(place)))
    assert found[0] == found[1]


@pytest.mark.parametrize("method", ["new_commit", "amend", "other"])
@pytest.mark.parametrize("branch", ["main", "nowhere"])
@pytest.mark.parametrize("version", [1, 2])
def test_what_cannot_be_rewritten_is_refused_alike(
    tmp_path: Path, method: str, branch: str, version: int
) -> None:
    found: list[tuple[str, str | None] | None] = []
    for engine in (OURS, REFERENCE):
        repo = engine.module.Repository.create(
            engine.storage(tmp_path / engine.name), spec_version=version
        )
        try:
            repo.rewrite_manifests("m", branch=branch, commit_method=method)
            found.append(None)
        except Exception as error:  # noqa: BLE001 -- whatever is raised is what is compared
            found.append((known_name(error), getattr(error, "kind", None)))
    assert found[0] == found[1]


def test_a_repository_that_is_closed_or_read_only_is_refused_alike(tmp_path: Path) -> None:
    found = []
    for engine in (OURS, REFERENCE):
        module = engine.module
        repo = module.Repository.create(engine.storage(tmp_path / engine.name))
        status = module.RepoStatus(module.RepoAvailability.read_only, dt.datetime.now(dt.UTC), "x")
        repo.set_status(status)
        with pytest.raises(module.ReadOnlyError) as refused:
            repo.rewrite_manifests("m", branch="main")
        found.append(refused.value.kind)
    assert found[0] == found[1]


def test_a_commit_with_moves_is_not_amended_alike(tmp_path: Path) -> None:
    found = []
    for engine in (OURS, REFERENCE):
        repo = engine.module.Repository.create(engine.storage(tmp_path / engine.name))
        session = repo.writable_session("main")
        zarr.group(session.store).create_group("a")
        session.commit("group")
        session = repo.rearrange_session("main")
        session.move("/a", "/b")
        session.commit("moved")
        with pytest.raises(engine.module.IcechunkError) as refused:
            repo.rewrite_manifests("m", branch="main", commit_method="amend")
        found.append((known_name(refused.value), refused.value.kind))
    assert found[0] == found[1]


def chunk_names(place: Path) -> set[str]:
    return {each.name for each in (place / "chunks").iterdir()}


@pytest.mark.parametrize("collector", [OURS, REFERENCE], ids=lambda engine: engine.name)
def test_the_reference_reads_packs_keeps_them_and_writes_beside_them(
    made: Path, collector: Engine
) -> None:
    repo = opened(OURS, made)
    done = repo.pack(branch="main", small_bytes=10, pack_bytes=40)
    assert (done.chunks, done.packs) == (39, 5)
    require_values(made)
    later = dt.datetime.now(dt.UTC) + dt.timedelta(minutes=1)
    theirs = opened(collector, made)
    theirs.expire_snapshots(older_than=later)
    before = chunk_names(made)
    summary = theirs.garbage_collect(later)
    assert summary.chunks_deleted == 39
    assert len(before - chunk_names(made)) == 39
    assert len(chunk_names(made)) == 5
    require_values(made)
    session = opened(REFERENCE, made, {0: 2}).writable_session("main")
    zarr.open_array(session.store, path="full")[1, 1] = VALUES[1, 1]
    session.commit("by the reference")
    require_values(made)
    assert repo.unpack(branch="main").chunks == 38
    require_values(made)


def test_a_session_of_the_reference_rebases_over_a_pack(made: Path) -> None:
    session = opened(REFERENCE, made).writable_session("main")
    zarr.open_array(session.store, path="full")[3, 3] = VALUES[3, 3]
    zarr.open_array(session.store, path="some")[0] = 0
    opened(OURS, made).pack(branch="main", small_bytes=10, pack_bytes=40)
    session.commit("rebased", rebase_with=icechunk.ConflictDetector())
    require_values(made)


def test_a_pack_that_loses_the_race_against_the_reference_keeps_its_commit(made: Path) -> None:
    engine = opened(OURS, made).engine
    plan = plan_pack(engine, "main", small_bytes=10, pack_bytes=40)
    session = opened(REFERENCE, made).writable_session("main")
    zarr.open_array(session.store, path="full")[3, 3] = 1000
    session.commit("by the reference, first")
    assert pack(engine, plan).snapshot is not None
    for one in (OURS, REFERENCE):
        group = zarr.open_group(opened(one, made).readonly_session("main").store, mode="r")
        assert values(group, "full")[3, 3] == 1000
        assert (values(group, "full") != VALUES).sum() == 1


def test_rewriting_commits_log_no_change_in_either_engine(made: Path) -> None:
    for engine in (OURS, REFERENCE):
        opened(engine, made).rewrite_manifests("rewritten", branch="main")
    opened(OURS, made).pack(branch="main", small_bytes=10, pack_bytes=40)
    repo = opened(REFERENCE, made)
    for info in list(repo.ancestry(branch="main"))[:3]:
        diff = repo.diff(from_snapshot_id=info.parent_id, to_snapshot_id=info.id)
        assert [*diff.updated_chunks, *diff.updated_arrays, *diff.new_arrays] == []


def test_what_the_reference_wrote_on_a_branch_is_merged_into_packed_chunks(made: Path) -> None:
    ours, theirs = opened(OURS, made), opened(REFERENCE, made)
    theirs.create_branch("fix", theirs.lookup_branch("main"))
    for value in (1000, 2000):
        session = opened(REFERENCE, made).writable_session("fix")
        zarr.open_array(session.store, path="full")[3, 3] = value
        session.commit("fixed")
        ours.merge("fix", into="main")
        ours.pack(branch="main", small_bytes=10, pack_bytes=40)
    ours.delete_branch("fix")
    later = dt.datetime.now(dt.UTC) + dt.timedelta(minutes=1)
    theirs.expire_snapshots(older_than=later)
    theirs.garbage_collect(later)
    for engine in (OURS, REFERENCE):
        group = zarr.open_group(opened(engine, made).readonly_session("main").store, mode="r")
        assert values(group, "full")[3, 3] == 2000
        assert (values(group, "full") != VALUES).sum() == 1
    assert opened(OURS, made).verify().ok


def test_the_reference_reads_a_history_that_was_purged(made: Path) -> None:
    repo = opened(OURS, made)
    ids = [info.id for info in repo.ancestry(branch="main")]
    repo.create_tag("tagged", ids[1])
    done = repo.purge_path("/some")
    assert done.nodes == ["/some"]
    repo.purge_messages([ids[1]])
    theirs = opened(REFERENCE, made)
    assert [info.id for info in theirs.ancestry(branch="main")][1:] == ids
    for snapshot in (done.commits["main"], *ids[:2]):
        session = theirs.readonly_session(snapshot_id=snapshot)
        group = zarr.open_group(session.store, mode="r")
        assert set(group.array_keys()) == {"full", "empty", "scalar"}
        np.testing.assert_array_equal(values(group, "full"), VALUES)
    assert theirs.lookup_snapshot(ids[1]).message == "(redacted)"
    assert theirs.lookup_tag("tagged") == ids[1]
    diff = theirs.diff(from_snapshot_id=ids[-1], to_branch="main")
    assert "/some" not in {*diff.new_arrays, *diff.deleted_arrays, *diff.updated_chunks}
    later = dt.datetime.now(dt.UTC) + dt.timedelta(minutes=1)
    assert theirs.garbage_collect(later).chunks_deleted == 0


def test_a_session_of_the_reference_does_not_bring_a_purged_array_back(made: Path) -> None:
    session = opened(REFERENCE, made).writable_session("main")
    zarr.open_array(session.store, path="full")[3, 3] = VALUES[3, 3]
    opened(OURS, made).purge_path("/some")
    with pytest.raises(icechunk.ConflictError):
        session.commit("stale")
    session.commit("rebased", rebase_with=icechunk.ConflictDetector())
    group = zarr.open_group(opened(OURS, made).readonly_session("main").store, mode="r")
    assert set(group.array_keys()) == {"full", "empty", "scalar"}
    assert isinstance(opened(OURS, made), frazil.Repository)
