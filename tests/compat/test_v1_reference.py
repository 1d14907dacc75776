"""Repositories of version 1, shared with icechunk: each reads and goes on with the other's."""

import pickle
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import cycle, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import zarr
from hypothesis import given, settings
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync

from tests.compat.driver import (
    INITIAL_SNAPSHOT,
    OURS,
    REFERENCE,
    Engine,
    Model,
    Player,
    array_values,
    assert_same,
    contents,
    diff_between,
    plain_snapshot,
)
from tests.compat.histories import histories
from tests.compat.steps import Abandon, Commit, History, Step
from tests.examples_count import scaled

UNKNOWN = "AAAAAAAAAAAAAAAAAAA0"
BOTH = (OURS, REFERENCE)


def create(engine: Engine, root: Path, config: Any = None) -> Any:
    return engine.module.Repository.create(engine.storage(root), config=config, spec_version=1)


def add_commit(engine: Engine, root: Path, i: int, branch: str = "main") -> str:
    """Groups, inline and native chunks, a resize, a deletion and odd metadata."""
    session = engine.open(root).writable_session(branch)
    array = zarr.create_array(
        session.store,
        name=f"group-{i}/a",
        shape=(40, 30, 0)[: 2 + i % 2],
        chunks=(7, 30, 4)[: 2 + i % 2],
        dtype="f8",
        dimension_names=("x", None, "")[: 2 + i % 2] if i % 3 else None,
    )
    array[...] = i + 0.5
    small = zarr.create_array(session.store, name=f"z-{i}", shape=(3,), chunks=(1,), dtype="i2")
    small[:2] = i
    if i > 0:
        zarr.open_array(session.store, path=f"z-{i - 1}").resize((2 * i,))
        zarr.open_array(session.store, path="group-0/a")[i, :] = -i
    if i > 1:
        del zarr.open_group(session.store)[f"z-{i - 2}"]
    snapshot: str = session.commit(
        f"commit {i} ✓", metadata={"deep": {"i": [i, -i, i / 2, None, "é", True, 2**40]}}
    )
    return snapshot


def shown(repo: Any) -> dict[str, object]:
    branches = {name: repo.lookup_branch(name) for name in sorted(repo.list_branches())}
    tags = {name: repo.lookup_tag(name) for name in sorted(repo.list_tags())}
    return {
        "version": int(repo.spec_version),
        "branches": branches,
        "tags": tags,
        "ancestry": {
            name: [plain_snapshot(info) for info in repo.ancestry(branch=name)] for name in branches
        },
        "tag ancestry": {
            name: [plain_snapshot(info) for info in repo.ancestry(tag=name)] for name in tags
        },
    }


def assert_seen_alike(root: Path) -> None:
    ours, reference = OURS.open(root), REFERENCE.open(root)
    assert_same(shown(ours), shown(reference), "refs and history")
    drawn = [
        re.findall(r"[0-9A-Z]{8} .*", str(repo.ancestry_graph(plain=True)))
        for repo in (ours, reference)
    ]
    assert_same(drawn[0], drawn[1], "graph, but for its lines")
    ids = [info.id for info in ours.ancestry(branch="main")]
    for newer, older in pairwise(ids):
        assert_same(diff_between(ours, older, newer), diff_between(reference, older, newer), "diff")
    for snapshot in ids:
        stores = [repo.readonly_session(snapshot_id=snapshot).store for repo in (ours, reference)]
        assert_same(contents(stores[0]), contents(stores[1]), "contents")
        assert_same(array_values(stores[0]), array_values(stores[1]), "values")
        listed = [
            sorted(
                (f.id, f.size_bytes, f.num_chunk_refs) for f in repo.list_manifest_files(snapshot)
            )
            for repo in (ours, reference)
        ]
        assert_same(listed[0], listed[1], "manifest files")


@pytest.mark.parametrize(
    ("creator", "writers"),
    [
        (OURS, (OURS, OURS, OURS, OURS)),
        (REFERENCE, (REFERENCE, REFERENCE, REFERENCE, REFERENCE)),
        (OURS, (REFERENCE, OURS, REFERENCE, OURS)),
        (REFERENCE, (OURS, REFERENCE, OURS, REFERENCE)),
    ],
    ids=["ours", "theirs", "ours first", "theirs first"],
)
def test_a_history_of_either_is_read_alike(
    creator: Engine, writers: tuple[Engine, ...], tmp_path: Path
) -> None:
    create(creator, tmp_path)
    for i, engine in enumerate(writers):
        tip = add_commit(engine, tmp_path, i)
        repo = engine.open(tmp_path)
        repo.create_tag(f"tag {i}", tip)
        repo.create_branch(f"branch-{i}", tip)
    writers[0].open(tmp_path).delete_tag("tag 1")
    writers[1].open(tmp_path).delete_branch("branch-1")
    writers[2].open(tmp_path).reset_branch("branch-2", INITIAL_SNAPSHOT)
    add_commit(writers[3], tmp_path, 0, branch="branch-2")
    assert_seen_alike(tmp_path)


def in_ascii(step: Step) -> Step:
    """With refs whose names need no encoding on disk, where the reference would hide them."""
    match step:
        case Commit(branch=name) | Abandon(branch=name):
            return replace(step, branch=name if name == "main" else name.encode().hex())
        case _:
            return replace(
                step, name=step.name if step.name == "main" else step.name.encode().hex()
            )


@pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")
@settings(max_examples=scaled(25))
@given(histories(max_steps=8))
def test_generated_histories_are_read_alike(history: History) -> None:
    with TemporaryDirectory() as directory:
        root = Path(directory, "repo")
        create(OURS, root)
        model, player = Model(), Player(root)
        for step, engine in zip(map(in_ascii, history.steps), cycle(BOTH), strict=False):
            model.play(step)
            player.play(engine, step)
        assert_same(shown(OURS.open(root)), shown(REFERENCE.open(root)), "refs and history")
        for engine in BOTH:
            repo = engine.open(root)
            for snapshot, expected in zip(player.ids, model.snapshots, strict=True):
                assert contents(repo.readonly_session(snapshot_id=snapshot).store) == expected
            for name, position in model.branches.items():
                found = [info.id for info in repo.ancestry(branch=name)]
                assert found == [player.ids[at] for at in model.ancestry(position)]


@pytest.mark.parametrize("engine", BOTH, ids=lambda engine: engine.name)
def test_a_commit_is_rebased_over_the_other_engines(engine: Engine, tmp_path: Path) -> None:
    other = BOTH[1 - BOTH.index(engine)]
    prepared(engine, tmp_path)
    session = edited(engine.open(tmp_path))
    add_commit(other, tmp_path, 0)
    session.commit("rebased", rebase_with=engine.module.ConflictDetector())
    assert_seen_alike(tmp_path)
    messages = [info.message for info in OURS.open(tmp_path).ancestry(branch="main")]
    assert messages[:2] == ["rebased", "commit 0 ✓"]


def test_forks_write_to_version_1(tmp_path: Path) -> None:
    prepared(OURS, tmp_path)
    session = OURS.open(tmp_path).writable_session("main")
    fork = pickle.loads(pickle.dumps(session.fork()))
    zarr.open_array(fork.store, path="a")[2:] = 5
    session.merge(fork)
    session.commit("merged")
    assert_seen_alike(tmp_path)
    array = zarr.open_array(REFERENCE.open(tmp_path).readonly_session("main").store, path="a")
    assert array[:].tolist() == [7, 7, 5, 5]  # type: ignore[union-attr]  # an array


def test_what_we_wrote_can_be_migrated_by_the_reference(tmp_path: Path) -> None:
    create(OURS, tmp_path)
    for i in range(3):
        add_commit(OURS, tmp_path, i)
    OURS.open(tmp_path).create_tag("kept", OURS.open(tmp_path).lookup_branch("main"))
    before = contents(OURS.open(tmp_path).readonly_session("main").store)
    REFERENCE.module.upgrade_icechunk_repository(REFERENCE.open(tmp_path), dry_run=False)
    migrated = OURS.open(tmp_path)
    assert int(migrated.spec_version) == 2
    assert contents(migrated.readonly_session("main").store) == before
    assert migrated.list_tags() == {"kept"}


def full_config(engine: Engine) -> Any:
    module = engine.module
    split, dim = module.ManifestSplitCondition, module.ManifestSplitDimCondition
    preload = module.ManifestPreloadCondition
    config = engine.config(
        inline_chunk_threshold_bytes=10,
        compression=module.CompressionConfig(level=5),
        caching=module.CachingConfig(num_snapshot_nodes=9),
        manifest=module.ManifestConfig(
            splitting=module.ManifestSplittingConfig.from_dict(
                {
                    split.path_matches("a'b: #") | split.name_matches("t"): {
                        dim.Axis(0): 3,
                        dim.DimensionName("x"): 2,
                    },
                    split.AnyArray(): {dim.Any(): 7},
                }
            ),
            preload=module.ManifestPreloadConfig(
                max_total_refs=3,
                preload_if=preload.and_conditions(
                    [preload.num_refs(1, 10), preload.true(), preload.path_matches('x"y')]
                ),
            ),
        ),
    )
    kinds = module.ObjectStoreConfig
    for prefix, store in (
        ("file:///d/", kinds.LocalFileSystem("/d: 'é'")),
        ("s3://a/", kinds.S3(module.S3Options(region="on", endpoint_url="http://x:1"))),
        ("s3://b/", kinds.S3Compatible(module.S3Options(anonymous=True))),
        ("s3://t/", kinds.Tigris(module.S3Options(requester_pays=True))),
        ("gs://g/", kinds.Gcs({"a": "1e3"})),
        ("gs://h/", kinds.Gcs({})),
        ("az://z/", kinds.Azure({"account": "null"})),
        ("http://h/", kinds.Http({"timeout": "5"}, {"h": "true"})),
    ):
        config.set_virtual_chunk_container(module.VirtualChunkContainer(prefix, store))
    return config


@pytest.mark.parametrize(("writer", "reader"), [BOTH, BOTH[::-1]], ids=["ours", "theirs"])
def test_a_configuration_is_read_by_the_other(
    writer: Engine, reader: Engine, tmp_path: Path
) -> None:
    create(writer, tmp_path, full_config(writer))
    found = reader.module.Repository.fetch_config(reader.storage(tmp_path))
    expected = full_config(reader)
    for name in ("inline_chunk_threshold_bytes", "compression", "caching", "manifest"):
        assert getattr(found, name) == getattr(expected, name), name
    assert set(found.virtual_chunk_containers) == set(expected.virtual_chunk_containers)
    for prefix, container in expected.virtual_chunk_containers.items():
        assert found.virtual_chunk_containers[prefix] == container, prefix
    repo = reader.open(tmp_path)
    repo.save_config()  # and back
    again = writer.open(tmp_path).config
    assert again.manifest == full_config(writer).manifest


# --- errors -----------------------------------------------------------------------------------


def prepared(engine: Engine, root: Path) -> Any:
    repo = create(engine, root)
    session = repo.writable_session("main")
    zarr.create_array(session.store, name="a", shape=(4,), chunks=(2,), dtype="i4")[...] = 7
    snapshot = session.commit("first")
    repo.create_branch("dev", snapshot)
    for tag in ("v1", "gone"):
        repo.create_tag(tag, snapshot)
    repo.delete_tag("gone")
    return repo


def edited(repo: Any, branch: str = "main") -> Any:
    session = repo.writable_session(branch)
    zarr.open_array(session.store, path="a")[0] = 1
    return session


def commit_late(repo: Any) -> None:
    late = edited(repo)
    edited(repo).commit("early")
    late.commit("late")


def commit_on_deleted_branch(repo: Any) -> None:
    session = edited(repo, "dev")
    repo.delete_branch("dev")
    session.commit("nowhere")


def put_rectilinear(repo: Any) -> None:
    document = (
        b'{"zarr_format":3,"node_type":"array","shape":[6],"data_type":"int8","chunk_grid":'
        b'{"name":"rectilinear","configuration":{"kind":"inline","chunk_shapes":[[1,2,3]]}},'
        b'"chunk_key_encoding":{"name":"default"},"fill_value":0,"codecs":[{"name":"bytes"}]}'
    )
    buffer = default_buffer_prototype().buffer.from_bytes(document)
    session = repo.writable_session("main")
    sync(session.store.set("r/zarr.json", buffer))
    session.commit("rectilinear")


def tip(repo: Any) -> str:
    found: str = repo.lookup_branch("main")
    return found


OLD = datetime(2000, 1, 1, tzinfo=UTC)
CALLS: dict[str, Callable[[Any], object]] = {
    "amend": lambda r: edited(r).amend("again"),
    "move": lambda r: r.rearrange_session("main"),
    "metadata": lambda r: r.metadata,
    "get_metadata": lambda r: r.get_metadata(),
    "set_metadata": lambda r: r.set_metadata({"a": 1}),
    "update_metadata": lambda r: r.update_metadata({"a": 1}),
    "status": lambda r: r.status,
    "flags": lambda r: r.feature_flags(),
    "enabled flags": lambda r: r.enabled_feature_flags(),
    "set flag": lambda r: r.set_feature_flag("move_node", False),
    "ops log": lambda r: list(r.ops_log()),
    "inspect_repo_info": lambda r: r.inspect_repo_info(),
    "rectilinear": put_rectilinear,
    "branch with slash": lambda r: r.create_branch("a/b", tip(r)),
    "tag with slash": lambda r: r.create_tag("a/b", tip(r)),
    "lookup of slash": lambda r: r.lookup_branch("a/b"),
    "lookup of tag with slash": lambda r: r.lookup_tag("a/b"),
    "deletion of slash": lambda r: r.delete_branch("a/b"),
    "deletion of tag with slash": lambda r: r.delete_tag("a/b"),
    "reset of slash": lambda r: r.reset_branch("a/b", tip(r)),
    "session of slash": lambda r: r.readonly_session("a/b"),
    "writable session of slash": lambda r: r.writable_session("a/b"),
    "missing branch": lambda r: r.lookup_branch("none"),
    "missing tag": lambda r: r.lookup_tag("none"),
    "session of missing branch": lambda r: r.readonly_session("none"),
    "session of missing tag": lambda r: r.readonly_session(tag="none"),
    "writable session of missing branch": lambda r: r.writable_session("none"),
    "branch at unknown": lambda r: r.create_branch("new", UNKNOWN),
    "tag at unknown": lambda r: r.create_tag("new", UNKNOWN),
    "reset to unknown": lambda r: r.reset_branch("main", UNKNOWN),
    "reset of missing": lambda r: r.reset_branch("none", tip(r)),
    "reset from elsewhere": lambda r: r.reset_branch(
        "dev", tip(r), from_snapshot_id=INITIAL_SNAPSHOT
    ),
    "unknown snapshot": lambda r: r.lookup_snapshot(UNKNOWN),
    "session of unknown": lambda r: r.readonly_session(snapshot_id=UNKNOWN),
    "ancestry of unknown": lambda r: list(r.ancestry(snapshot_id=UNKNOWN)),
    "ancestry of missing": lambda r: list(r.ancestry(branch="none")),
    "manifests of unknown": lambda r: r.list_manifest_files(UNKNOWN),
    "branch again": lambda r: r.create_branch("main", tip(r)),
    "tag again": lambda r: r.create_tag("v1", tip(r)),
    "deleted tag again": lambda r: r.create_tag("gone", tip(r)),
    "deleted tag": lambda r: r.lookup_tag("gone"),
    "deleting a deleted tag": lambda r: r.delete_tag("gone"),
    "deleting main": lambda r: r.delete_branch("main"),
    "deleting a missing branch": lambda r: r.delete_branch("none"),
    "too old": lambda r: r.readonly_session("main", as_of=OLD),
    "too old and missing": lambda r: r.readonly_session("none", as_of=OLD),
    "diff backwards": lambda r: r.diff(from_branch="main", to_snapshot_id=INITIAL_SNAPSHOT),
    "nothing to commit": lambda r: r.writable_session("main").commit("nothing"),
    "late commit": commit_late,
}


def raised(call: Callable[[Any], object], repo: Any) -> tuple[list[str], str | None]:
    """Names of the error's class and of those above it that both engines have; its kind."""
    try:
        call(repo)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is compared
        names = [cls.__name__ for cls in type(error).__mro__]
        return [name for name in names if hasattr(REFERENCE.module, name)], getattr(
            error, "kind", None
        )
    return [], None


@pytest.mark.parametrize("name", CALLS)
def test_errors_have_the_same_name_and_kind(name: str, tmp_path: Path) -> None:
    ours = raised(CALLS[name], prepared(OURS, tmp_path / "ours"))
    reference = raised(CALLS[name], prepared(REFERENCE, tmp_path / "reference"))
    assert reference[0], "the reference accepts it"
    assert ours == reference


def test_a_commit_on_a_deleted_branch_says_so(tmp_path: Path) -> None:
    """The reference calls it a conflict, as if trying again could help."""
    names, kind = raised(commit_on_deleted_branch, prepared(OURS, tmp_path))
    assert (names[0], kind) == ("RefNotFoundError", "ref-not-found")


def test_a_flushed_snapshot_can_be_branched_from(tmp_path: Path) -> None:
    """Nothing lists it; whoever knows its id can use it."""
    for engine in BOTH:
        root = tmp_path / engine.name
        repo = prepared(engine, root)
        flushed = edited(repo).flush("aside")
        for reader in BOTH:
            opened = reader.open(root)
            assert opened.lookup_snapshot(flushed).parent_id == tip(repo)
            opened.create_branch(f"by-{reader.name}", flushed)
            array = zarr.open_array(
                opened.readonly_session(f"by-{reader.name}").store, path="a", mode="r"
            )
            assert array[0] == 1


def test_tags_whose_names_the_reference_hides_on_disk_are_listed(tmp_path: Path) -> None:
    """It does not decode the names of files, and so would collect what only they keep alive."""
    repo = prepared(REFERENCE, tmp_path)
    repo.create_tag("ñ~", tip(repo))
    assert "ñ~" not in repo.list_tags()
    assert OURS.open(tmp_path).list_tags() == {"v1", "ñ~"}


@pytest.mark.parametrize("other", [OURS, REFERENCE], ids=lambda engine: engine.name)
@pytest.mark.parametrize("cached", [0, 1, 4])
def test_a_repository_that_is_open_while_another_client_expires_and_collects_goes_on(
    tmp_path: Path, other: Engine, cached: int
) -> None:
    """However much of the history it has in memory."""
    ours = OURS.module.Repository.create(OURS.storage(tmp_path), spec_version=1)
    for number in range(6):
        session = ours.writable_session("main")
        zarr.create_group(session.store, path=f"g{number}")
        session.commit(f"c{number}")
    opened = [OURS.open(tmp_path) for _ in range(5)]
    theirs = other.open(tmp_path)
    history = list(theirs.ancestry(branch="main"))
    for repo in opened:
        for each in history[:cached]:
            repo.readonly_session(snapshot_id=each.id)
    theirs.expire_snapshots(history[1].written_at)
    later = datetime.now(UTC) + timedelta(seconds=5)
    theirs.garbage_collect(later)
    expected = [each.message for each in OURS.open(tmp_path).ancestry(branch="main")]
    assert len(expected) == 3
    seen = [each.message for each in opened[0].ancestry(branch="main")]
    assert list(dict.fromkeys([*seen[:cached], *expected])) == seen  # what it knew, then the rest
    assert [each.message for each in opened[0].ancestry(branch="main")] == expected  # from then on
    opened[1].expire_snapshots(history[1].written_at)
    assert opened[2].garbage_collect(later).snapshots_deleted == 0
    assert opened[3].stats().snapshots == 3
    session = opened[4].writable_session("main")
    zarr.create_group(session.store, path="more")
    session.commit("more")
    for engine in (OURS, REFERENCE):
        found = [each.message for each in engine.open(tmp_path).ancestry(branch="main")]
        assert found == ["more", *expected]
    for repo in opened[1:4]:
        assert [each.message for each in repo.ancestry(branch="main")] == ["more", *expected]
