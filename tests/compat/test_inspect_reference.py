"""What both implementations show of the same files."""

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from tests.compat.driver import INITIAL_SNAPSHOT, OURS, REFERENCE, Engine

ENGINES = [OURS, REFERENCE]


def edit(repo: Any, branch: str, message: str, change: Callable[[zarr.Group], object]) -> str:
    session = repo.writable_session(branch)
    change(zarr.open_group(session.store, mode="a"))
    return str(session.commit(message, {"k": {"v": [1, None]}}))


def fill(root: zarr.Group) -> None:
    """Arrays with inline and native chunks, one without dimensions, names for some axes."""
    array = root.create_array(
        "a", shape=(40, 4), chunks=(20, 2), dtype="f8", dimension_names=("x", None)
    )
    array[:] = np.arange(160.0).reshape(40, 4)
    root.create_array("b", shape=(600,), chunks=(200,), dtype="f8", compressors=None)[:400] = 2.5
    root.create_array("scalar", shape=(), dtype="i4")[...] = 3
    root.create_group("group")


def change(root: zarr.Group) -> None:
    a, b = root["a"], root["b"]
    assert isinstance(a, zarr.Array)
    assert isinstance(b, zarr.Array)
    a[:20] = 9
    b.attrs["unit"] = "m"
    root.attrs["title"] = "second"
    del root["group"]
    del root["scalar"]


def history(engine: Engine, root: Path) -> Any:
    repo = engine.create(root, config=engine.config(num_updates_per_repo_info_file=8))
    edit(repo, "main", "first", fill)
    second = edit(repo, "main", "second\nwith more", change)
    repo.create_branch("dev", second)
    edit(repo, "dev", "on dev", lambda group: group.attrs.update(x=1))
    repo.create_tag("v1", second)
    repo.create_tag("gone", second)
    repo.delete_tag("gone")
    repo.reset_branch("dev", second)
    repo.set_metadata({"owner": "us"})
    repo.set_feature_flag("move_node", False)
    repo.set_feature_flag("move_node", None)
    module = engine.module
    for availability in ("read_only", "online"):
        repo.set_status(
            module.RepoStatus(
                getattr(module.RepoAvailability, availability),
                datetime(2024, 1, 2, 3, 4, 5, 6000, tzinfo=UTC),
                "why",
            )
        )
    return repo


@pytest.mark.parametrize("writer", ENGINES, ids=lambda engine: engine.name)
def test_every_file_is_shown_alike(writer: Engine, tmp_path: Path) -> None:
    repo = history(writer, tmp_path)
    ours, reference = OURS.open(tmp_path), REFERENCE.open(tmp_path)
    assert ours.inspect_repo_info() == reference.inspect_repo_info()
    manifests = set[str]()
    for snapshot in repo.ancestry(branch="main"):
        found = ours.inspect_snapshot(snapshot.id)
        assert found == reference.inspect_snapshot(snapshot.id)
        assert ours.inspect_transaction_log(snapshot.id) == reference.inspect_transaction_log(
            snapshot.id
        )
        manifests.update(file["id"] for file in found["manifests"])
    assert len(manifests) >= 4
    for manifest in manifests:
        assert ours.inspect_manifest(manifest) == reference.inspect_manifest(manifest)


def test_virtual_references_with_compressed_locations_are_counted_alike(tmp_path: Path) -> None:
    module = REFERENCE.module
    repo = REFERENCE.create(
        tmp_path,
        config=REFERENCE.config(
            manifest=module.ManifestConfig(
                virtual_chunk_location_compression=(
                    module.ManifestVirtualChunkLocationCompressionConfig(min_num_chunks=10)
                )
            )
        ),
    )
    session = repo.writable_session("main")
    root = zarr.create_group(session.store)
    root.create_array("v", shape=(200,), chunks=(1,), dtype="i4")
    specs = [
        module.VirtualChunkSpec([i], f"s3://bucket/some/long/prefix/file-{i}.nc", i, 4)
        for i in range(200)
    ]
    session.store.set_virtual_refs("v", specs, validate_containers=False)
    commit = session.commit("virtual")
    manifest = repo.list_manifest_files(commit)[0].id
    found = OURS.open(tmp_path).inspect_manifest(manifest)
    assert found == REFERENCE.open(tmp_path).inspect_manifest(manifest)
    assert found["compression"]["num_compressed_refs"] == 200


def test_logs_of_expired_commits_are_summed_up_alike(tmp_path: Path) -> None:
    repo = history(REFERENCE, tmp_path)
    for start, end in (("/a", "/z"), ("/z", "/y")):
        session = repo.rearrange_session("main")
        session.move(start, end)
        session.commit("move")
    time.sleep(0.01)
    cutoff = datetime.now(UTC)
    time.sleep(0.01)
    last = edit(repo, "main", "last", lambda group: group.attrs.update(z=1))
    repo.expire_snapshots(cutoff)
    logs = [engine.open(tmp_path).inspect_transaction_log(last) for engine in ENGINES]
    for log in logs:
        assert log["synthetic_composite"].pop("note")
    assert logs[0] == logs[1]
    first = logs[0]["synthetic_composite"]["merged_pruned_ancestor_tx_logs"][0]
    (tmp_path / "transactions" / first).unlink()
    logs = [engine.open(tmp_path).inspect_transaction_log(last) for engine in ENGINES]
    for log in logs:
        assert log["synthetic_composite"].pop("note")
    assert logs[0] == logs[1]
    assert logs[0]["synthetic_composite"]["missing_tx_logs"] == [first]


@pytest.mark.parametrize(
    "method", ["inspect_snapshot", "inspect_manifest", "inspect_transaction_log"]
)
def test_a_file_that_is_not_there_is_missing_for_both(method: str, tmp_path: Path) -> None:
    OURS.create(tmp_path)
    for engine in ENGINES:
        with pytest.raises(engine.module.StorageError) as caught:
            getattr(engine.open(tmp_path), method)("0" * 20)
        assert caught.value.kind == "object-not-found"


# --- the graph ----------------------------------------------------------------------------------

SHAPES: dict[str, list[tuple[str, str | None]]] = {
    # (branch, branch to make it from if it is new); one commit each
    "empty": [],
    "line": [("main", None)] * 3,
    "one branch": [("main", None), ("dev", "main"), ("main", None), ("dev", None)],
    "branch of a branch": [("main", None), ("b", "main"), ("b", None), ("a", "b"), ("main", None)],
    "fan": [("main", None), *((name, "main") for name in "pqrs"), ("main", None)],
    "ladder": [("a", "main"), ("b", "a"), ("c", "b"), ("main", None), ("a", None), ("b", None)],
    "crossing": [("z", "main"), ("a", "main"), ("y", "z"), ("b", "a"), ("z", None), ("a", None)],
}


def build(root: Path, steps: list[tuple[str, str | None]]) -> Any:
    repo = OURS.create(root)
    for i, (branch, start) in enumerate(steps):
        if start is not None:
            repo.create_branch(branch, repo.lookup_branch(start))
        repo.writable_session(branch).commit(f"commit {i} " + "long " * i * 3, allow_empty=True)
    repo.create_tag("t2", repo.lookup_branch("main"))
    repo.create_tag("t1", repo.lookup_branch("main"))
    repo.create_branch("idle", repo.lookup_branch("main"))
    return repo


def captions(graph: object) -> list[str]:
    """The commits of a printed graph, without the lines."""
    lines = [re.sub(r"^[ ●│─╯╰┴┼]*", "", line).rstrip() for line in str(graph).splitlines()]
    return [line for line in lines if line]


@pytest.mark.parametrize("shape", SHAPES)
def test_the_graph_has_the_commits_of_the_reference(shape: str, tmp_path: Path) -> None:
    ours = build(tmp_path, SHAPES[shape])
    reference = REFERENCE.open(tmp_path)
    expected = captions(reference.ancestry_graph(plain=True))
    assert captions(ours.ancestry_graph(plain=True)) == expected
    assert len(expected) == len(SHAPES[shape]) + 1
    drawn = re.sub(r"\x1b\[[0-9;]*m", "", str(ours.ancestry_graph()))
    assert drawn == str(ours.ancestry_graph(plain=True))


@pytest.mark.parametrize("shape", ["empty", "line"])
def test_the_graph_of_a_line_is_that_of_the_reference(shape: str, tmp_path: Path) -> None:
    """But for spaces at the end of lines, and for room kept for branches without commits."""
    ours = build(tmp_path, SHAPES[shape])
    ours.delete_branch("idle")
    reference = str(REFERENCE.open(tmp_path).ancestry_graph(plain=True))
    expected = "".join(f"{line.rstrip()}\n" for line in reference.splitlines())
    assert str(ours.ancestry_graph(plain=True)) == expected


@pytest.mark.parametrize(
    "arguments", [{"branch": "b"}, {"tag": "t1"}, {"snapshot_id": INITIAL_SNAPSHOT}]
)
def test_the_graph_of_one_version_has_its_ancestors(
    arguments: dict[str, str], tmp_path: Path
) -> None:
    ours = build(tmp_path, SHAPES["branch of a branch"])
    graphs = [
        [line[:8] for line in captions(repo.ancestry_graph(**arguments, plain=True))]
        for repo in (ours, REFERENCE.open(tmp_path))
    ]
    assert graphs[0] == graphs[1]
    assert graphs[0] == [snapshot.id[:8] for snapshot in ours.ancestry(**arguments)]


@pytest.mark.parametrize(
    "arguments",
    [{"branch": "nonsense"}, {"branch": "main", "tag": "t1"}, {"snapshot_id": "0" * 20}],
)
def test_the_graph_of_no_version_is_refused_alike(
    arguments: dict[str, str], tmp_path: Path
) -> None:
    build(tmp_path, [])
    errors = []
    for engine in ENGINES:
        with pytest.raises(Exception) as caught:  # noqa: PT011 -- compared below
            engine.open(tmp_path).ancestry_graph(**arguments)
        errors.append((type(caught.value).__name__, getattr(caught.value, "kind", None)))
    assert errors[0] == errors[1]
