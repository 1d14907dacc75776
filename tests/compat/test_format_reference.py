"""Every kind of file, between frazil's codecs and the live reference, in both directions."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import icechunk
import numpy as np
import pytest
import zarr

from frazil.describe.dump import dump
from frazil.flatbuf.flexbuffers import Json
from frazil.format.chunk_refs import ChunkRefs, LastModified, Virtual
from frazil.format.locations import LocationCompression
from frazil.format.manifest import Manifest, decode_manifest, encode_manifest
from frazil.format.repo_info import decode_repo_info, encode_repo_info
from frazil.format.snapshot import decode_snapshot, encode_snapshot
from frazil.format.transaction_log import decode_txlog, encode_txlog

pytestmark = pytest.mark.skipif(
    not icechunk.__version__.startswith("2."), reason="needs a reference that writes version 2"
)


def storage(path: Path) -> icechunk.Storage:
    return icechunk.local_filesystem_storage(str(path))


def virtual(place: int, location: str | None = None) -> icechunk.VirtualChunkSpec:
    return icechunk.VirtualChunkSpec(
        [place],
        location or f"s3://bucket/a/long/prefix/of/files/file-{place:05}.nc",
        place * 10,
        10,
        etag_checksum="etag" if place == 1 else None,
        last_updated_at_checksum=datetime(2020, 1, 1, tzinfo=UTC) if place == 2 else None,
    )


def reference_config() -> icechunk.RepositoryConfig:
    config = icechunk.RepositoryConfig(inline_chunk_threshold_bytes=12)
    config.manifest = icechunk.ManifestConfig(
        splitting=icechunk.ManifestSplittingConfig.from_dict(
            {
                icechunk.ManifestSplitCondition.name_matches("split"): {
                    icechunk.ManifestSplitDimCondition.Axis(0): 2
                }
            }
        )
    )
    config.set_virtual_chunk_container(
        icechunk.VirtualChunkContainer("s3://bucket/", icechunk.s3_store(region="us-east-1"))
    )
    return config


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A repository by the reference that uses as much of the format as its API reaches."""
    path = tmp_path / "reference"
    repo = icechunk.Repository.create(storage(path), config=reference_config())
    session = repo.writable_session("main")
    root = zarr.group(session.store, attributes={"title": "größer"})
    array = root.create_array(
        "a", shape=(10, 4), chunks=(5, 2), dtype="f4", dimension_names=["t", None]
    )
    array[:] = np.arange(40).reshape(10, 4)
    small = root.create_array("group/small", shape=(3,), chunks=(1,), dtype="i1", compressors=None)
    small[:] = [1, 2, 3]
    root.create_array("scalar", shape=(), dtype="f8")[...] = 2.5
    root.create_array("split", shape=(9,), chunks=(1,), dtype="i4")[:] = np.arange(9)
    root.create_array("empty", shape=(0, 3), chunks=(1, 1), dtype="i4")
    root.create_array("few", shape=(5,), chunks=(1,), dtype="i4")
    root.create_array("many", shape=(2000,), chunks=(1,), dtype="i4")
    session.store.set_virtual_refs("/few", [virtual(place) for place in range(5)])
    session.store.set_virtual_refs("/many", [virtual(place) for place in range(2000)])
    session.commit("first", metadata={"k": [1, -2, 2.5, {"x": None}], "b": True, "s": "täxt"})
    session = repo.writable_session("main")
    zarr.open_group(session.store).create_group("a-b")
    zarr.open_array(session.store, path="a")[:5] = 7
    del zarr.open_group(session.store)["few"]
    second = session.commit("second")
    repo.create_tag("v1", second)
    repo.create_tag("v2", second)
    repo.delete_tag("v2")
    repo.create_branch("dev", repo.lookup_branch("main"))
    repo.create_branch("gone", second)
    repo.delete_branch("gone")
    mover = repo.rearrange_session("main")
    mover.move("/group", "/moved")
    mover.commit("moved")
    repo.set_metadata({"owner": "someone", "n": 1})
    return path


def contents(path: Path) -> dict[object, Any]:
    """Everything the reference shows of a repository."""
    repo = icechunk.Repository.open(storage(path))
    seen: dict[object, Any] = {
        "config": repo.config,
        "branches": {name: repo.lookup_branch(name) for name in sorted(repo.list_branches())},
        "tags": {name: repo.lookup_tag(name) for name in sorted(repo.list_tags())},
        "ops": [(str(u.kind), u.updated_at, u.backup_path) for u in repo.ops_log()],
        "metadata": repo.metadata,
    }
    for branch, tip in seen["branches"].items():
        seen[branch] = [
            (info.id, info.parent_id, info.message, info.metadata, info.written_at)
            for info in repo.ancestry(branch=branch)
        ]
        session = repo.readonly_session(branch=branch)
        seen[branch, "virtual"] = sorted(session.all_virtual_chunk_locations())
        seen[branch, "diff"] = str(
            repo.diff(from_snapshot_id=seen[branch][-1][0], to_branch=branch)
        )
        group = zarr.open_group(session.store, mode="r")
        for name, member in group.members(max_depth=None):
            attributes = dict(member.attrs)
            values = None
            if isinstance(member, zarr.Array) and name not in {"few", "many"}:
                values = np.asarray(member[...]).tolist()
            seen[tip, name] = (attributes, values)
    return seen


def files(path: Path, kind: str) -> list[Path]:
    found = sorted((path / kind).iterdir())
    assert found
    return found


# ---- reading what the reference wrote ----------------------------------------------------------


def without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_none(each) for key, each in value.items() if each is not None}
    return [without_none(each) for each in value] if isinstance(value, list) else value


def as_shown(value: Any) -> Any:
    """A dump in the spelling of `inspect_*`: times end in Z, absent fields are left out."""
    text = json.dumps(value)
    return json.loads(text.replace("+00:00", "Z"))


def assert_shows(ours: dict[str, Json], theirs: dict[str, Any]) -> None:
    """Whatever the reference shows, and we show too, is equal."""
    theirs = {key: value for key, value in theirs.items() if key not in {"header", "spec_version"}}
    shown = as_shown(ours)
    assert {key: _matching(shown[key], value) for key, value in theirs.items()} == theirs


def _matching(ours: Any, theirs: Any) -> Any:
    """`ours` without the parts that `theirs` does not have."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        return {key: _matching(ours.get(key), value) for key, value in theirs.items()}
    if isinstance(theirs, list) and isinstance(ours, list):
        if len(ours) != len(theirs):
            return ours
        return [_matching(left, right) for left, right in zip(ours, theirs, strict=True)]
    return ours


def test_snapshots_are_read_as_the_reference_reads_them(written: Path) -> None:
    repo = icechunk.Repository.open(storage(written))
    for file in files(written, "snapshots"):
        assert_shows(dump(file.read_bytes(), max_rows=None), repo.inspect_snapshot(file.name))


def test_the_repo_info_is_read_as_the_reference_reads_it(written: Path) -> None:
    repo = icechunk.Repository.open(storage(written))
    ours = dump((written / "repo").read_bytes(), max_rows=None)
    assert_shows(ours, repo.inspect_repo_info())


def test_manifests_are_read_as_the_reference_reads_them(written: Path) -> None:
    repo = icechunk.Repository.open(storage(written))
    compressed = 0
    for file in files(written, "manifests"):
        theirs = repo.inspect_manifest(file.name)
        compressed += theirs["compression"]["uses_location_compression"]
        known = {"id", "num_arrays", "total_chunk_refs", "arrays"}
        expected = {key: value for key, value in theirs.items() if key in known}
        assert_shows(dump(file.read_bytes(), max_rows=None), expected)
    assert compressed == 1


def test_transaction_logs_are_read_as_the_reference_reads_them(written: Path) -> None:
    repo = icechunk.Repository.open(storage(written))
    for file in files(written, "transactions"):
        ours = dump(file.read_bytes(), max_rows=None)
        assert_shows(ours, repo.inspect_transaction_log(file.name))


def test_compressed_locations_are_read(written: Path) -> None:
    session = icechunk.Repository.open(storage(written)).readonly_session(branch="main")
    expected = sorted(session.all_virtual_chunk_locations())
    found: set[str | None] = set()
    payloads = []
    for file in files(written, "manifests"):
        for refs in decode_manifest(file.read_bytes()).arrays.values():
            found |= set(refs.location.to_texts())
            payloads += [refs.payload(row) for row in range(len(refs))]
    assert set(expected) <= found
    assert len(expected) == 2000
    assert Virtual(virtual(7).location, 70, 10) in payloads
    assert Virtual(virtual(2).location, 20, 10, LastModified(1_577_836_800)) in payloads


# ---- writing what the reference reads ----------------------------------------------------------


def rewrite(path: Path, *, compression: LocationCompression | None) -> None:
    """Every metadata file decoded and encoded again, in place."""
    sizes = {}
    for file in files(path, "manifests"):
        manifest = decode_manifest(file.read_bytes())
        file.write_bytes(encode_manifest(manifest, location_compression=compression))
        sizes[manifest.id] = file.stat().st_size
    for file in files(path, "snapshots"):
        snapshot = decode_snapshot(file.read_bytes())
        listed = tuple(replace(f, size_bytes=sizes[f.id]) for f in snapshot.manifest_files)
        file.write_bytes(encode_snapshot(replace(snapshot, manifest_files=listed)))
    for file in files(path, "transactions"):
        file.write_bytes(encode_txlog(decode_txlog(file.read_bytes())))
    for file in [path / "repo", *files(path, "overwritten")]:
        file.write_bytes(encode_repo_info(decode_repo_info(file.read_bytes())))


@pytest.mark.parametrize("compression", [None, LocationCompression(), LocationCompression(1)])
def test_a_rewritten_repository_looks_the_same_to_the_reference(
    written: Path, compression: LocationCompression | None
) -> None:
    before = contents(written)
    rewrite(written, compression=compression)
    assert (written / "repo").read_bytes()[12:18] == b"frazil"
    assert contents(written) == before


def test_the_reference_commits_on_top_of_a_rewritten_repository(written: Path) -> None:
    rewrite(written, compression=None)
    repo = icechunk.Repository.open(storage(written))
    session = repo.writable_session("main")
    zarr.open_array(session.store, path="a")[:] = 5
    zarr.open_array(session.store, path="split")[3] = 99
    session.commit("on top")
    group = zarr.open_group(repo.readonly_session(branch="main").store, mode="r")
    assert np.asarray(group["a"][...]).tolist() == [[5] * 4] * 10  # type: ignore[index]  # an array
    assert np.asarray(group["split"][...]).tolist() == [0, 1, 2, 99, 4, 5, 6, 7, 8]  # type: ignore[index]  # same
    assert repo.inspect_repo_info()["header"]["written_by"].startswith("ic-")


def test_long_locations_in_a_compressed_manifest_are_read_by_the_reference(written: Path) -> None:
    """The reference itself writes such manifests and then cannot read them."""
    long = ["s3://bucket/" + "x" * size for size in (1012, 1013, 3000)]
    repo = icechunk.Repository.open(storage(written))
    session = repo.readonly_session(branch="main")
    name, manifest = next(
        (file, found)
        for file in files(written, "manifests")
        if (found := decode_manifest(file.read_bytes())).num_refs == 2000
    )
    ((node, refs),) = manifest.arrays.items()
    rows = np.array([[0], [1], [2]], dtype=np.uint32)
    changed = ChunkRefs.merged(
        refs, ChunkRefs.virtual(rows, long, 0, 1), np.zeros((0, 1), dtype=np.uint32)
    )
    name.write_bytes(
        encode_manifest(
            Manifest(manifest.id, {node: changed}), location_compression=LocationCompression()
        )
    )
    for file in files(written, "snapshots"):
        snapshot = decode_snapshot(file.read_bytes())
        listed = tuple(
            replace(f, size_bytes=name.stat().st_size) if f.id == manifest.id else f
            for f in snapshot.manifest_files
        )
        file.write_bytes(encode_snapshot(replace(snapshot, manifest_files=listed)))
    repo = icechunk.Repository.open(storage(written))
    shown = repo.inspect_manifest(name.name)["compression"]
    assert shown["uses_location_compression"]
    assert shown["num_compressed_refs"] == 1998
    session = repo.readonly_session(branch="main")
    assert set(long) <= set(session.all_virtual_chunk_locations())
