"""Chunks themselves: virtual ones asked for, all of them decoded."""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import frazil
from frazil.maintenance.verify.report import VerifyReport
from frazil.objectstore.credentials import LocalFileSystemAccess


@pytest.fixture
def source(tmp_path: Path) -> Path:
    place = tmp_path / "files" / "data.bin"
    place.parent.mkdir()
    place.write_bytes(np.arange(8, dtype="i4").tobytes())
    return place


def made(root: Path, source: Path, specs: list[Any]) -> frazil.Repository:
    prefix = f"file://{source.parent}/"
    config = frazil.RepositoryConfig()
    container = frazil.VirtualChunkContainer(
        prefix, frazil.local_filesystem_store(str(source.parent))
    )
    config.set_virtual_chunk_container(container)
    storage = frazil.local_filesystem_storage(str(root))
    repo = frazil.Repository.create(
        storage, config, authorize_virtual_chunk_access={prefix: LocalFileSystemAccess()}
    )
    session = repo.writable_session("main")
    zarr.create_array(session.store, name="a", shape=(8,), chunks=(2,), dtype="i4",
                      compressors=None)  # fmt: skip
    session.store.set_virtual_refs("a", specs)
    session.commit("virtual")
    return repo


def spec(source: Path, index: int, **given: Any) -> Any:
    fields: dict[str, Any] = {"offset": index * 8, "length": 8, **given}
    location = given.pop("location", f"file://{source}")
    return frazil.VirtualChunkSpec(
        [index], location, fields["offset"], fields["length"],
        last_updated_at_checksum=fields.get("at"),
    )  # fmt: skip


def kinds(report: VerifyReport) -> set[str]:
    return set(report.kinds)


def test_virtual_chunks_that_are_there_are_no_problem(tmp_path: Path, source: Path) -> None:
    repo = made(tmp_path / "repo", source, [spec(source, i) for i in range(4)])
    assert repo.verify(virtual=True, decode=True).problems == ()


def test_a_virtual_object_that_is_gone_is_found_when_asked_for(
    tmp_path: Path, source: Path
) -> None:
    repo = made(tmp_path / "repo", source, [spec(source, i) for i in range(4)])
    source.unlink()
    assert repo.verify().problems == ()
    report = repo.verify(virtual=True)
    assert report.kinds == {"virtual-missing": 4}
    assert report.errors[0].place.node == "/a"


def test_a_virtual_object_that_is_too_short_is_found(tmp_path: Path, source: Path) -> None:
    repo = made(tmp_path / "repo", source, [spec(source, i) for i in range(4)])
    source.write_bytes(source.read_bytes()[:20])
    assert repo.verify(virtual=True).kinds == {"virtual-out-of-bounds": 2}


def test_a_virtual_object_that_changed_is_found(tmp_path: Path, source: Path) -> None:
    at = datetime.now(UTC)
    repo = made(tmp_path / "repo", source, [spec(source, 0, at=at)])
    later = at.timestamp() + 1000
    os.utime(source, (later, later))
    assert kinds(repo.verify(virtual=True)) == {"virtual-changed"}


def test_a_virtual_object_that_cannot_be_read_is_found(tmp_path: Path, source: Path) -> None:
    repo = made(tmp_path / "repo", source, [spec(source, i) for i in range(4)])
    source.unlink()
    source.symlink_to(source)  # it is there, and leads nowhere but to itself
    report = repo.verify(virtual=True)
    assert report.kinds == {"virtual-unreadable": 4}
    assert not report.ok
    assert "data.bin" in report.errors[0].text


def test_what_may_not_be_read_is_noted(tmp_path: Path, source: Path) -> None:
    made(tmp_path / "repo", source, [spec(source, i) for i in range(4)])
    report = frazil.Repository.verify_storage(
        frazil.local_filesystem_storage(str(tmp_path / "repo")), virtual=True
    )
    assert kinds(report) == {"virtual-unauthorized"}
    assert report.ok


def test_chunks_of_the_wrong_length_cannot_be_decoded(tmp_path: Path, source: Path) -> None:
    repo = made(tmp_path / "repo", source, [spec(source, 0), spec(source, 1, length=7)])
    (problem,) = repo.verify(decode=True).problems
    assert (problem.kind, problem.place.chunk) == ("chunk-undecodable", (1,))


@pytest.mark.parametrize("shards", [None, (4, 4)])
def test_every_chunk_of_an_array_is_decoded(shards: tuple[int, int] | None) -> None:
    storage = frazil.in_memory_storage()
    repo = frazil.Repository.create(storage)
    session = repo.writable_session("main")
    array = zarr.create_array(session.store, name="a", shape=(7, 9), chunks=(2, 2), shards=shards,
                              dtype="i8")  # fmt: skip
    array[...] = np.arange(63).reshape(7, 9)
    session.commit("data")
    assert repo.verify(decode=True).problems == ()
    progress: list[tuple[str, int, int]] = []
    repo.verify(decode=True, progress=lambda *told: progress.append(told))
    assert progress[-1] == ("manifests", 1, 1)
