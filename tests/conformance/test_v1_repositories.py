"""Version 1 repositories that releases of the reference wrote, opened as a user does."""

import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from frazil.api import Repository, local_filesystem_storage
from frazil.errors import AlreadyExistsError
from frazil.ids import INITIAL_SNAPSHOT

FIXTURES = Path(__file__).parent / "fixtures"
OLD = ("V1-9b78cf65-20250513", "V1-a0680b68-20250702")
ORDERS = sorted((FIXTURES / "node-order").glob("*.tar.gz"))
NAMES = ("a/b", "a/c/d", "a!", "a-b", "a.c/x", "a0", "z/é/1", "z/é-1", "z/é/q")


def unpacked(archive: Path, target: Path) -> Path:
    with tarfile.open(archive) as packed:
        packed.extractall(target, filter="data")
    return target / archive.name.removesuffix(".tar.gz")


def opened(root: Path) -> Repository:
    return Repository.open(local_filesystem_storage(str(root)))


def described() -> list[tuple[Path, str, dict[str, Any]]]:
    """Every version 1 repository of the archives, expired ones and those never migrated too."""
    found = []
    for archive in sorted(FIXTURES.glob("*.tar.gz")):
        with tarfile.open(archive) as packed:
            manifest = packed.extractfile(f"{archive.name.removesuffix('.tar.gz')}/manifest.json")
            assert manifest is not None
            repos = json.load(manifest)["repos"].items()
        found += [
            (archive, repo, about) for repo, about in repos if "repo" not in about["top_level"]
        ]
    return found


@pytest.mark.parametrize(("archive", "repo", "about"), described(), ids=lambda one: str(one)[-40:])
def test_refs_history_and_arrays_are_as_described(
    archive: Path, repo: str, about: dict[str, Any], tmp_path: Path
) -> None:
    root = unpacked(archive, tmp_path)
    repository = opened(root / repo)
    assert repository.spec_version == 1
    assert repository.list_branches() == set(about["branches"])
    assert repository.list_tags() == set(about["tags"])
    for ref, expected in about["refs"].items():
        kind, _, ref_name = ref.partition(":")
        which: dict[str, Any] = {kind: ref_name}
        newest, *older = repository.ancestry(**which)
        assert newest.message == expected["message"]
        assert [info.message for info in older] == expected["history"]
        group = zarr.open_group(repository.readonly_session(**which).store, mode="r")
        for path, array in expected["arrays"].items():
            assert list(group[path].shape) == array["shape"]  # type: ignore[union-attr]  # an array


def test_the_configuration_is_read(tmp_path: Path) -> None:
    """Of 0.2: virtual chunk containers are known by name there, and by prefix since 1.0."""
    root = unpacked(FIXTURES / f"{OLD[1]}.tar.gz", tmp_path)
    config = opened(root / "test-repo").config
    assert config.inline_chunk_threshold_bytes == 12
    assert set(config.virtual_chunk_containers or {}) >= {"s3://testbucket", "gcs", "az"}
    root = unpacked(FIXTURES / f"{OLD[0]}.tar.gz", tmp_path)
    manifest = opened(root / "split-repo").config.manifest
    assert manifest is not None
    assert manifest.splitting is not None


def test_a_deleted_tag_stays_deleted(tmp_path: Path) -> None:
    root = unpacked(FIXTURES / f"{OLD[1]}.tar.gz", tmp_path)
    repository = opened(root / "test-repo")
    with pytest.raises(AlreadyExistsError):
        repository.create_tag("deleted", repository.lookup_branch("main"))


@pytest.mark.parametrize("archive", ORDERS, ids=lambda path: path.name.removesuffix(".tar.gz"))
def test_every_node_is_found_in_whatever_order_it_was_written(
    archive: Path, tmp_path: Path
) -> None:
    repository = opened(unpacked(archive, tmp_path))
    group = zarr.open_group(repository.readonly_session("main").store, mode="r")
    for i, name in enumerate(NAMES):
        expected = np.arange((6 + i) * 4).reshape(6 + i, 4) + i
        np.testing.assert_array_equal(group[name][...], expected)  # type: ignore[index]  # an array
    assert float(group["scalar"][...]) == 3.5  # type: ignore[arg-type, index]  # an array
    assert group["empty"].shape == (0, 5)  # type: ignore[union-attr]  # an array
    second, first, root = repository.ancestry(branch="main")
    assert (second.message, first.message, root.message) == (
        "second",
        "first",
        "Repository initialized",
    )
    assert first.metadata == {"deep": {"n": [1, -1, 0.5, None, True, "é"]}}
    assert repository.list_tags() == {"kept"}
    assert repository.list_branches() == {"main", "dev"}
    diff = repository.diff(from_snapshot_id=root.id, to_branch="dev")
    assert diff.new_arrays == {"/empty", "/scalar", *(f"/{name}" for name in NAMES)}


@pytest.mark.parametrize("archive", ORDERS, ids=lambda path: path.name.removesuffix(".tar.gz"))
def test_every_release_wrote_what_we_add_to(archive: Path, tmp_path: Path) -> None:
    root = unpacked(archive, tmp_path)
    session = opened(root).writable_session("main")
    zarr.open_array(session.store, path="a-b")[0, 0] = -1
    session.commit("ours")
    array = zarr.open_array(opened(root).readonly_session("main").store, path="a-b", mode="r")
    assert array[0, :2].tolist() == [-1, 4]  # type: ignore[union-attr]  # an array of two


def test_releases_before_0_2_17_begin_with_a_snapshot_of_any_name(tmp_path: Path) -> None:
    repository = opened(unpacked(FIXTURES / "node-order" / "V1-by-0.2.0.tar.gz", tmp_path))
    *_, root = repository.ancestry(branch="main")
    assert root.parent_id is None
    assert root.id != str(INITIAL_SNAPSHOT)
