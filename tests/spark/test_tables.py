"""Tables about a repository say what the repository itself says."""

import json
from collections.abc import Iterator
from datetime import UTC
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import frazil
from frazil.objectstore.credentials import LocalFileSystemAccess
from frazil.paths import NodePath
from frazil.spark.table.metadata_tables import TABLES
from tests.spark.repositories import put

pytestmark = [pytest.mark.spark, pytest.mark.spark_matrix]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tables")


@pytest.fixture(scope="module")
def repository(place: Path) -> frazil.Repository:
    """Native, inline and virtual chunks; two branches, a tag; something moved and deleted."""
    files = place / "files"
    files.mkdir()
    (files / "a.bin").write_bytes(bytes(64))
    prefix = f"file://{files}/"
    config = frazil.RepositoryConfig(inline_chunk_threshold_bytes=16)
    store = frazil.ObjectStoreConfig.LocalFileSystem(str(files))
    config.set_virtual_chunk_container(frazil.VirtualChunkContainer(prefix, store))
    storage = frazil.local_filesystem_storage(place / "repository")
    repository = frazil.Repository.create(storage, config, {prefix: LocalFileSystemAccess()})
    session = repository.writable_session("main")
    group = zarr.group(session.store)
    put(group, "time", np.arange(6.0), "time", 6)
    put(group, "small", np.arange(6, dtype="i4"), "time", 2, units="m")
    put(group, "deep/large", np.arange(60.0).reshape(6, 10), "time x", (3, 10))
    zarr.create_array(
        session.store, name="far", shape=(4, 4), chunks=(2, 4), dtype="u1", filters=None,
        compressors=None,
    )  # fmt: skip
    session.store.set_virtual_refs(
        "far", [frazil.VirtualChunkSpec([k, 0], f"{prefix}a.bin", 8 * k, 8) for k in range(2)]
    )
    session.commit("first", {"by": "tests", "n": 3})
    repository.create_tag("v1", repository.lookup_branch("main"))
    with repository.transaction("main", message="second") as changed:
        zarr.open_array(changed, path="deep/large")[0] = 7
        zarr.group(changed).create_group("new")
        del zarr.group(changed)["small"]
    repository.create_branch("other", repository.lookup_tag("v1"))
    with repository.transaction("other", message="elsewhere") as changed:
        zarr.open_array(changed, path="time")[:] = 1
    rearranged = repository.rearrange_session("main")
    rearranged.move("/deep", "/deeper")
    rearranged.commit("moved")
    return repository


def table(spark: SparkSession, place: Path, name: str, **options: str) -> DataFrame:
    reader = spark.read.format("icechunk").option("table", name)
    return reader.options(**options).load(str(place / "repository"))


def rows(frame: DataFrame) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = frame.toArrow().to_pylist()
    return found


def said(info: frazil.SnapshotInfo) -> dict[str, Any]:
    return {
        "snapshot_id": info.id,
        "parent_id": info.parent_id,
        "written_at": info.written_at,
        "message": info.message,
        "metadata": json.dumps(info.metadata),
    }


@pytest.mark.parametrize("version", [{"branch": "main"}, {"branch": "other"}, {"tag": "v1"}])
def test_history_is_the_ancestry(
    spark: SparkSession, repository: frazil.Repository, place: Path, version: dict[str, Any]
) -> None:
    found = rows(table(spark, place, "history", **version).orderBy("depth"))
    expected = list(repository.ancestry(**version))
    assert len(expected) > 1
    assert found == [{"depth": depth, **said(info)} for depth, info in enumerate(expected)]


def test_snapshots_are_those_of_all_branches(
    spark: SparkSession, repository: frazil.Repository, place: Path
) -> None:
    found = rows(table(spark, place, "snapshots").orderBy("written_at"))
    ids = {info.id for b in ("main", "other") for info in repository.ancestry(branch=b)}
    assert {row["snapshot_id"] for row in found} == ids
    assert found == [said(repository.lookup_snapshot(row["snapshot_id"])) for row in found]
    until = found[2]["written_at"].astimezone(UTC).isoformat()
    assert rows(table(spark, place, "snapshots", asOf=until).orderBy("written_at")) == found[:3]


def test_refs_are_branches_and_tags(
    spark: SparkSession, repository: frazil.Repository, place: Path
) -> None:
    found = {(r["kind"], r["name"], r["snapshot_id"]) for r in rows(table(spark, place, "refs"))}
    assert found == {
        *(("branch", b, repository.lookup_branch(b)) for b in repository.list_branches()),
        *(("tag", t, repository.lookup_tag(t)) for t in repository.list_tags()),
    }


def test_nodes_are_groups_and_arrays_of_the_version(
    spark: SparkSession, repository: frazil.Repository, place: Path
) -> None:
    found = {row["path"]: row for row in rows(table(spark, place, "nodes", tag="v1"))}
    session = repository.readonly_session(tag="v1")
    root = zarr.open_group(session.store, mode="r")
    assert set(found) == {"/", *(f"/{name}" for name, _ in root.members(max_depth=None))}
    for name, member in root.members(max_depth=None):
        row = found[f"/{name}"]
        assert json.loads(row["attributes"]) == dict(member.attrs)
        assert json.loads(row["metadata"])["node_type"] == row["type"]
        if isinstance(member, zarr.Array):
            assert tuple(row["shape"]) == member.shape
            assert tuple(row["chunk_shape"]) == member.chunks
            assert tuple(row["chunk_grid"]) == member.cdata_shape
            assert row["data_type"] == str(member.dtype)
        else:
            assert row["shape"] is None
    below = {row["path"] for row in rows(table(spark, place, "nodes", group="deeper"))}
    assert below == {"/deeper", "/deeper/large"}


def test_manifests_are_those_of_the_snapshot(
    spark: SparkSession, repository: frazil.Repository, place: Path
) -> None:
    snapshot = repository.lookup_branch("main")
    found = rows(table(spark, place, "manifests", snapshot=snapshot))
    assert {(r["manifest_id"], r["size_bytes"], r["num_chunk_refs"]) for r in found} == {
        (file.id, file.size_bytes, file.num_chunk_refs)
        for file in repository.list_manifest_files(snapshot)
    }
    assert {path for row in found for path in row["arrays"]} == {"/time", "/far", "/deeper/large"}


@pytest.mark.parametrize("version", [{"branch": "main"}, {"tag": "v1"}])
def test_chunk_refs_are_those_of_the_arrays(
    spark: SparkSession, repository: frazil.Repository, place: Path, version: dict[str, Any]
) -> None:
    found = rows(table(spark, place, "chunk_refs", partitionBytes="1", **version))
    store = repository.readonly_session(**version).store
    seen = {(row["path"], tuple(row["chunk"])): row for row in found}
    assert len(seen) == len(found)
    count = 0
    for path in {row["path"] for row in found}:
        for index, kinds, places, offsets, lengths, _ in store.array_chunk_iterator(path):
            for k, (kind, where) in enumerate(zip(kinds, places, strict=True)):
                row = seen[path, tuple(index[k].tolist())]
                assert row["kind"] == frazil.ChunkType(int(kind)).name
                assert (row["chunk_id"] or row["location"] or "") == where
                assert (row["offset"] or 0, row["length"]) == (int(offsets[k]), int(lengths[k]))
                count += 1
    assert count == len(found)
    inline = {"inline"} if "tag" in version else set()  # gone since
    assert {row["kind"] for row in found} == {"native", "virtual"} | inline


def test_chunk_refs_of_some_arrays_read_no_other_manifests(
    spark: SparkSession, place: Path, repository: frazil.Repository
) -> None:
    frame = table(spark, place, "chunk_refs", variables="deeper/large", partitionBytes="1")
    assert {row["path"] for row in rows(frame)} == {"/deeper/large"}
    listed = {r["manifest_id"]: r["arrays"] for r in rows(table(spark, place, "manifests"))}
    named = {row["manifest_id"] for row in rows(frame)}
    assert all("/deeper/large" in listed[one] for one in named)
    assert repository.list_branches() == {"main", "other"}


def test_the_ops_log_is_the_ops_log(
    spark: SparkSession, repository: frazil.Repository, place: Path
) -> None:
    found = rows(table(spark, place, "ops_log").orderBy("position"))
    expected = list(repository.ops_log())
    assert [row["kind"] for row in found] == [type(one.kind).__name__ for one in expected]
    assert [row["updated_at"] for row in found] == [one.updated_at for one in expected]
    assert [row["backup_path"] for row in found] == [one.backup_path for one in expected]
    commits = [row for row in found if row["kind"] == "NewCommit"]
    assert commits[0]["name"] == "main"
    assert commits[0]["snapshot_id"] == repository.lookup_branch("main")
    early = table(spark, place, "ops_log", asOf=found[-1]["updated_at"].isoformat())
    assert rows(early) == found[-1:]


def test_a_diff_is_the_diff(
    spark: SparkSession, repository: frazil.Repository, place: Path
) -> None:
    found = rows(table(spark, place, "diff", **{"from": "v1", "to": "main"}))
    expected = repository.diff(from_tag="v1", to_branch="main")

    def paths(change: str) -> set[str]:
        return {row["path"] for row in found if row["change"] == change}

    assert paths("new_group") == expected.new_groups == {"/new"}
    assert paths("deleted_array") == expected.deleted_arrays == {"/small"}
    assert paths("updated_array") == expected.updated_arrays
    moved = [(r["path"], r["moved_to"]) for r in found if r["change"] == "moved"]
    assert moved == expected.moved_nodes
    chunks: dict[str, list[list[int]]] = {}
    for row in found:
        if row["change"] == "updated_chunk":
            chunks.setdefault(row["path"], []).append(row["chunk"])
    assert chunks == expected.updated_chunks
    start = next(iter(repository.ancestry(tag="v1"))).id
    assert rows(table(spark, place, "diff", **{"from": start})) == found  # to main, by id
    before = list(repository.ancestry(branch="main"))[1].id
    last = rows(table(spark, place, "diff", **{"from": before}))
    assert last
    assert rows(table(spark, place, "diff")) == last  # by default, of the last commit


@pytest.mark.parametrize("version", [{"branch": "main"}, {"tag": "v1"}])
def test_storage_adds_up(
    spark: SparkSession, repository: frazil.Repository, place: Path, version: dict[str, Any]
) -> None:
    found = rows(table(spark, place, "storage", **version).orderBy("path"))
    session = repository.readonly_session(**version).engine
    for row in found:
        sizes: dict[str, list[int]] = {"native": [], "virtual": [], "inline": []}
        for refs in session.chunk_refs(NodePath(row["path"])):
            for kind, size in zip(refs.kind, refs.length, strict=True):
                sizes[{1: "inline", 2: "native", 3: "virtual"}[int(kind)]].append(int(size))
        assert row == {
            "path": row["path"],
            **{f"{kind}_chunks": len(each) for kind, each in sizes.items()},
            **{f"{kind}_bytes": sum(each) for kind, each in sizes.items()},
        }
    arrays = rows(table(spark, place, "nodes", **version).where("type = 'array'"))
    assert [row["path"] for row in found] == sorted(row["path"] for row in arrays)


def test_version_1_has_its_tables_too(spark: SparkSession, tmp_path: Path) -> None:
    storage = frazil.local_filesystem_storage(tmp_path / "repository")
    old = frazil.Repository.create(storage, spec_version=1)
    with old.transaction("main", message="one") as store:
        put(zarr.group(store), "v", np.arange(4.0), "x", 2)
    for name in ("history", "snapshots"):
        found = rows(table(spark, tmp_path, name).orderBy("written_at"))
        assert [row["message"] for row in found] == ["Repository initialized", "one"]
    assert len(rows(table(spark, tmp_path, "chunk_refs"))) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"table": "histroy"}, "no table 'histroy' .did you mean 'history'"),
        ({"table": "refs", "tag": "v1"}, "option 'tag' means nothing to table 'refs'"),
        ({"table": "history", "mode": "rows"}, "table and mode exclude each other"),
        ({"table": "diff", "from": "nothing"}, "no tag, branch or snapshot 'nothing'"),
        ({"table": "nodes", "group": "nowhere"}, "NodeNotFoundError.*nowhere"),
        ({"table": "chunk_refs", "variables": "far,nix"}, "no array at /nix"),
        ({"table": "history", "branch": "dev"}, "RefNotFoundError.*dev"),
    ],
)
def test_mistakes_are_told(
    spark: SparkSession,
    repository: frazil.Repository,
    place: Path,
    options: dict[str, str],
    message: str,
) -> None:
    assert repository.list_tags() == {"v1"}
    reader = spark.read.format("icechunk").options(**options)
    with pytest.raises(PySparkException, match=f"(?s){message}"):
        reader.load(str(place / "repository")).collect()


def test_some_columns_of_a_table(
    spark: SparkSession, repository: frazil.Repository, place: Path
) -> None:
    reader = spark.read.format("icechunk").option("table", "refs")
    frame = reader.schema("snapshot_id STRING, name STRING").load(str(place / "repository"))
    assert ("v1" in {row.name for row in frame.collect()}) == bool(repository.list_tags())
    with pytest.raises(PySparkException, match="the columns are kind, name, snapshot_id"):
        reader.schema("nam STRING").load(str(place / "repository")).collect()
    assert list(frame_names(TABLES["refs"].ddl)) == ["kind", "name", "snapshot_id"]


def frame_names(ddl: str) -> Iterator[str]:
    return (column.split()[0] for column in ddl.split(", "))


def test_the_documentation_has_the_tables_and_their_columns() -> None:
    text = (Path(__file__).parents[2] / "docs" / "spark-read.md").read_text()
    for name, told in TABLES.items():
        columns = ", ".join(frame_names(told.ddl))
        assert f"| `{name}`: {told.about} | " in text
        assert f" | {columns} |\n" in text
