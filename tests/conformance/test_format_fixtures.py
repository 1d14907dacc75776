"""Files that the reference wrote over the years, read by us; see fixtures/PROVENANCE.md."""

import json
import tarfile
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard

from frazil.describe.dump import dump
from frazil.format.chunk_refs import Inline, Native
from frazil.format.envelope import MAGIC, FileType, decode_header
from frazil.format.manifest import decode_manifest, encode_manifest
from frazil.format.nodes import ArrayData, Node
from frazil.format.repo_info import RepoInfo, decode_repo_info, encode_repo_info
from frazil.format.snapshot import Snapshot, decode_snapshot, encode_snapshot
from frazil.format.transaction_log import decode_txlog, encode_txlog
from frazil.ids import SnapshotId

FIXTURES = Path(__file__).parent / "fixtures"
ARCHIVES = sorted(path.name.removesuffix(".tar.gz") for path in FIXTURES.glob("*.tar.gz"))


@cache
def archive(name: str) -> dict[str, bytes]:
    """Content by path, without the archive's own folder."""
    with tarfile.open(FIXTURES / f"{name}.tar.gz") as packed:
        members = [member for member in packed.getmembers() if member.isfile()]
        return {
            member.name.partition("/")[2]: opened.read()
            for member in members
            if (opened := packed.extractfile(member)) is not None
        }


def metadata_files(name: str) -> Iterator[tuple[str, bytes]]:
    return ((path, data) for path, data in archive(name).items() if data.startswith(MAGIC))


def repositories() -> list[tuple[str, str]]:
    return [
        (name, repo)
        for name in ARCHIVES
        for repo in json.loads(archive(name)["manifest.json"])["repos"]
    ]


def described(name: str, repo: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(archive(name)["manifest.json"])["repos"][repo]
    return content


def file(name: str, *parts: str) -> bytes:
    return archive(name)["/".join(parts)]


def test_the_corpus_is_not_empty() -> None:
    """And holds every kind of file of both versions."""
    kinds: Counter[tuple[FileType, int]] = Counter()
    for name in ARCHIVES:
        for _, data in metadata_files(name):
            header = decode_header(data)
            kinds[header.file_type, header.spec_version] += 1
    assert kinds == {
        (FileType.REPO_INFO, 2): 67,
        (FileType.SNAPSHOT, 1): 37,
        (FileType.SNAPSHOT, 2): 19,
        (FileType.MANIFEST, 1): 87,
        (FileType.MANIFEST, 2): 45,
        (FileType.TRANSACTION_LOG, 1): 27,
        (FileType.TRANSACTION_LOG, 2): 29,
    }


AGAIN: dict[FileType, Callable[[bytes], bytes]] = {
    FileType.REPO_INFO: lambda data: encode_repo_info(decode_repo_info(data)),
    FileType.SNAPSHOT: lambda data: encode_snapshot(decode_snapshot(data)),
    FileType.MANIFEST: lambda data: encode_manifest(decode_manifest(data)),
    FileType.TRANSACTION_LOG: lambda data: encode_txlog(decode_txlog(data)),
}


@pytest.mark.parametrize("name", ARCHIVES)
def test_every_file_written_again_says_the_same(name: str) -> None:
    for path, data in metadata_files(name):
        again = AGAIN[decode_header(data).file_type](data)
        before, after = dump(data, max_rows=None), dump(again, max_rows=None)
        del before["header"], after["header"]
        if decode_header(data).file_type is FileType.SNAPSHOT:
            after["parent_id"] = before["parent_id"]  # version 2 keeps it in the repo info
        assert after == before, path


@pytest.mark.parametrize("name", ARCHIVES)
def test_files_are_named_after_their_ids(name: str) -> None:
    for path, data in metadata_files(name):
        if decode_header(data).file_type is not FileType.REPO_INFO:
            assert dump(data)["id"] == path.rpartition("/")[2]


def tips(name: str, repo: str) -> Iterator[tuple[str, Snapshot]]:
    """The snapshot of every branch and tag, whichever way refs are stored."""
    about = described(name, repo)
    if "repo" in about["top_level"]:
        info = decode_repo_info(file(name, repo, "repo"))
        found = {f"branch:{ref}": info.snapshot_of_branch(ref) for ref in info.branches}
        found |= {f"tag:{ref}": info.snapshot_of_tag(ref) for ref in info.tags}
        assert sorted(info.branches) == sorted(about["branches"])
    else:
        found = {f"branch:{ref}": SnapshotId.parse(i) for ref, i in about["branches"].items()}
        found |= {f"tag:{ref}": SnapshotId.parse(i) for ref, i in about["tags"].items()}
    for ref, snapshot in found.items():
        yield ref, decode_snapshot(file(name, repo, "snapshots", str(snapshot)))


@pytest.mark.parametrize(("name", "repo"), repositories())
def test_refs_messages_and_arrays_are_as_described(name: str, repo: str) -> None:
    about = described(name, repo)
    for ref, snapshot in tips(name, repo):
        expected = about["refs"][ref]
        assert snapshot.message == expected["message"]
        arrays = {node.path.text: node for node in snapshot.nodes if node.is_array}
        assert sorted(arrays) == sorted(expected["arrays"])
        for path, node in arrays.items():
            assert node.array is not None
            assert list(node.array.shape) == expected["arrays"][path]["shape"]


def grid(user_data: bytes, shape: tuple[int, ...]) -> tuple[int, ...]:
    chunks = json.loads(user_data)["chunk_grid"]["configuration"]["chunk_shape"]
    return tuple(-(-size // chunk) for size, chunk in zip(shape, chunks, strict=True))


@pytest.mark.parametrize(("name", "repo"), repositories())
def test_the_chunk_grid_is_that_of_the_zarr_metadata(name: str, repo: str) -> None:
    checked = 0
    for _, snapshot in tips(name, repo):
        for node in snapshot.nodes:
            if node.array is not None:
                assert node.array.num_chunks == grid(node.user_data, node.array.shape)
                checked += 1
    assert checked


def chunk_bytes(
    name: str, repo: str, node: Node, array: ArrayData, index: tuple[int, ...]
) -> bytes:
    for ref in array.manifests:
        refs = decode_manifest(file(name, repo, "manifests", str(ref.id))).arrays.get(node.id)
        if refs is None or (row := refs.find(index)) < 0:
            continue
        assert all(lo <= at < hi for at, (lo, hi) in zip(index, ref.extents, strict=True))
        match refs.payload(row):
            case Inline(data):
                return data
            case Native(chunk_id, offset, length):
                stored = file(name, repo, "chunks", str(chunk_id))
                return stored[offset : offset + length]
            case _:
                return b""  # a virtual chunk: its file is not here
    return b""


def test_first_values_are_as_described() -> None:
    """Through refs, snapshots and manifests to the bytes of the first chunk."""
    checked = 0
    for name, repo in repositories():
        for ref, snapshot in tips(name, repo):
            for node in snapshot.nodes:
                if node.array is None:
                    continue
                assert [codec["name"] for codec in json.loads(node.user_data)["codecs"]] == [
                    "bytes",
                    "zstd",
                ]
                first = (0,) * len(node.array.shape)
                data = chunk_bytes(name, repo, node, node.array, first)
                if data:
                    expected = described(name, repo)["refs"][ref]["arrays"][node.path.text]
                    plain = zstandard.ZstdDecompressor().decompressobj().decompress(data)
                    values = np.frombuffer(plain, dtype=expected["dtype"])
                    assert str(values[0]) == expected["first_values"][0]
                    checked += 1
    assert checked == 33


@pytest.mark.parametrize(("name", "repo"), repositories())
def test_manifest_files_listed_are_those_stored(name: str, repo: str) -> None:
    for _, snapshot in tips(name, repo):
        listed = {file.id.raw for file in snapshot.manifest_files}
        assert {raw.tobytes() for raw in snapshot.nodes.manifest_ids()} <= listed
        for each in snapshot.manifest_files:
            data = file(name, repo, "manifests", str(each.id))
            assert len(data) == each.size_bytes
            assert decode_manifest(data).num_refs == each.num_refs


def ancestry(info: RepoInfo, row: int) -> list[str]:
    messages = []
    while (row := int(info.snapshots.parents[row])) >= 0:
        messages.append(info.snapshots.message(row))
    return messages


def test_ancestry_of_version_2_repositories_is_as_described() -> None:
    checked = 0
    for name, repo in repositories():
        if "repo" not in described(name, repo)["top_level"]:
            continue
        info = decode_repo_info(file(name, repo, "repo"))
        for branch, row in info.branches.items():
            expected = described(name, repo)["refs"][f"branch:{branch}"]["history"]
            assert ancestry(info, row) == expected
            checked += 1
    assert checked > 5


def test_migrated_repositories_mix_files_of_both_versions() -> None:
    mixed = 0
    for name in ARCHIVES:
        for repo in json.loads(archive(name)["manifest.json"])["repos"]:
            versions = {
                decode_header(data).spec_version
                for path, data in metadata_files(name)
                if path.startswith(f"{repo}/")
            }
            mixed += versions == {1, 2}
    assert mixed >= 1


def test_logs_of_pruned_ancestors_are_there_though_their_snapshots_are_gone() -> None:
    seen = 0
    for name, repo in repositories():
        if "repo" not in described(name, repo)["top_level"]:
            continue
        info = decode_repo_info(file(name, repo, "repo"))
        for row in range(len(info.snapshots)):
            for raw in info.snapshots.pruned_logs(row):
                log = decode_txlog(file(name, repo, "transactions", str(SnapshotId(raw))))
                assert log.id.raw == raw
                seen += 1
    assert seen >= 1
