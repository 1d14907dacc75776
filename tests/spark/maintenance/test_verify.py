"""A repository verified by executors: the same list as locally, problem by problem."""

from pathlib import Path

import numpy as np
import pytest
import zarr
from pyspark.sql import SparkSession

import frazil
from frazil.engine.files.object_keys import CHUNKS, MANIFESTS, SNAPSHOTS, TRANSACTIONS
from frazil.ids import INITIAL_SNAPSHOT
from frazil.spark.actions.verify import verify
from tests.spark.repositories import make_weather
from tests.verify.damage import healthy
from tests.verify.test_chunks import made as made_virtual
from tests.verify.test_chunks import spec

pytestmark = pytest.mark.spark


def storage_of(path: Path) -> frazil.Storage:
    return frazil.local_filesystem_storage(str(path))


def damaged(root: Path) -> None:
    """Something of every kind of file."""
    chunk, other, *_ = sorted((root / CHUNKS).iterdir())
    chunk.unlink()
    other.write_bytes(other.read_bytes()[:3])
    max((root / TRANSACTIONS).iterdir()).unlink()
    manifest = min((root / MANIFESTS).iterdir())
    manifest.write_bytes(manifest.read_bytes()[:-5])
    first = root / SNAPSHOTS / str(INITIAL_SNAPSHOT)  # has no manifests that would be hidden
    first.write_bytes(first.read_bytes()[:60])


def made(root: Path) -> Path:
    store = healthy(2)
    for info in store.list():
        place = root / info.key
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(store.get(info.key).data)
    return root


def test_executors_find_what_is_found_here(spark: SparkSession, tmp_path: Path) -> None:
    root = made(tmp_path / "repo")
    healthy_result = verify(spark, str(root))
    assert healthy_result.report.problems == ()
    assert healthy_result.problems.count() == 0
    damaged(root)
    here = frazil.Repository.verify_storage(storage_of(root))
    there = verify(spark, str(root), progress=False)
    assert list(map(str, there.report.problems)) == list(map(str, here.problems))
    assert len(here.problems) >= 3  # the chunks may be in the manifest that is cut off
    assert there.report.refs == here.refs
    assert there.report.unreferenced == here.unreferenced
    rows = there.problems.collect()
    assert [(row.kind, row.file, row.text) for row in rows] == [
        (one.kind, one.place.file, one.text) for one in here.problems
    ]


def test_executors_decode_chunks(spark: SparkSession, tmp_path: Path) -> None:
    root = tmp_path / "repo"
    session = frazil.Repository.create(storage_of(root)).writable_session("main")
    group = zarr.open_group(session.store, mode="w")
    group.create_array("a", data=np.arange(4000, dtype="i8"), chunks=(1000,))
    session.commit("data")
    assert verify(spark, str(root), decode=True).report.problems == ()
    chunk = min((root / CHUNKS).iterdir())
    chunk.write_bytes(b"?" * chunk.stat().st_size)
    here = frazil.Repository.open(storage_of(root)).verify(decode=True)
    there = verify(spark, str(root), decode=True).report
    assert set(there.kinds) == {"chunk-undecodable"}
    assert there.problems == here.problems


def test_what_does_not_open_is_verified_all_the_same(spark: SparkSession, tmp_path: Path) -> None:
    root = tmp_path / "repo"
    make_weather(root)
    (root / "repo").write_bytes(b"nothing")
    assert "repo-info-unreadable" in verify(spark, str(root)).report.kinds


def test_executors_ask_for_virtual_objects_as_is_done_here(
    spark: SparkSession, tmp_path: Path
) -> None:
    source = tmp_path / "files" / "data.bin"
    source.parent.mkdir()
    source.write_bytes(np.arange(8, dtype="i4").tobytes())
    repo = made_virtual(tmp_path / "repo", source, [spec(source, i) for i in range(4)])
    assert verify(spark, repo, virtual=True, decode=True).report.problems == ()
    source.write_bytes(source.read_bytes()[:20])
    assert verify(spark, repo).report.problems == ()
    here, there = repo.verify(virtual=True), verify(spark, repo, virtual=True).report
    assert there.problems == here.problems
    assert there.kinds == {"virtual-out-of-bounds": 2}
    unasked = verify(spark, str(tmp_path / "repo"), virtual=True).report
    assert set(unasked.kinds) == {"virtual-unauthorized"}
