"""Repositories that the alphas of icechunk 2.0 wrote; the reference has changed since."""

import tarfile
from pathlib import Path

import icechunk
import numpy as np
import pytest
import zarr

from frazil.api import Repository, UpdateType, local_filesystem_storage
from frazil.errors import FormatError

FOLDER = Path(__file__).parent / "fixtures" / "prereleases"
RELEASES = sorted(path.name.removesuffix(".tar.gz") for path in FOLDER.glob("*.tar.gz"))
WITHOUT_IDS = ["2.0.0a3", "2.0.0a4"]  # of what was moved


def unpacked(release: str, target: Path) -> str:
    with tarfile.open(FOLDER / f"{release}.tar.gz") as packed:
        packed.extractall(target, filter="data")
    return str(target / release)


def test_there_are_repositories_to_look_at() -> None:
    assert RELEASES == ["2.0.0a3", "2.0.0a4", "2.0.0a6", "2.0.0a7"]


@pytest.mark.parametrize("release", RELEASES)
def test_refs_history_and_data_are_read(release: str, tmp_path: Path) -> None:
    repository = Repository.open(local_filesystem_storage(unpacked(release, tmp_path)))
    assert repository.generation == "V2"
    assert repository.list_branches() == {"main", "dev"}
    assert repository.list_tags() == {"v1"}
    history = list(repository.ancestry(branch="dev"))
    messages = [info.message for info in history]
    assert messages == ["virtual", "moved", "two", "one", "Repository initialized"]
    assert history[3].metadata == {"k": [1, "b"]}
    for ref, path, first in (("main", "x", 0), ("dev", "moved", 9)):
        group = zarr.open_group(repository.readonly_session(ref).store, mode="r")
        assert dict(group.attrs) == {"a": 1}
        values = zarr.open_array(repository.readonly_session(ref).store, path=path, mode="r")
        np.testing.assert_array_equal(values[:], [first, 1, 2, 3])
        large = zarr.open_array(repository.readonly_session(ref).store, path="big", mode="r")
        np.testing.assert_array_equal(large[:], np.arange(2000))
    places = repository.readonly_session("dev").all_virtual_chunk_locations()
    assert set(places) == {f"s3://b/a/long/prefix/file{number}.nc" for number in range(1500)}
    kinds = [type(update.kind) for update in repository.ops_log()]
    assert kinds[-2:] == [UpdateType.NewCommit, UpdateType.RepoInitialized]
    assert len(kinds) == 9


@pytest.mark.parametrize("release", RELEASES)
def test_what_moved_is_known(release: str, tmp_path: Path) -> None:
    repository = Repository.open(local_filesystem_storage(unpacked(release, tmp_path)))
    newest, *_, first = repository.ancestry(branch="dev")
    found = repository.diff(from_snapshot_id=first.id, to_snapshot_id=newest.id)
    assert found.moved_nodes == [("/x", "/moved")]
    assert found.new_arrays == {"/moved", "/big", "/v"}


@pytest.mark.compat
@pytest.mark.parametrize("release", WITHOUT_IDS)
def test_the_reference_no_longer_reads_their_logs(release: str, tmp_path: Path) -> None:
    place = unpacked(release, tmp_path)
    repository = icechunk.Repository.open(icechunk.local_filesystem_storage(place))
    newest, *_, first = repository.ancestry(branch="dev")
    with pytest.raises(icechunk.FormatError, match="node_id"):
        repository.diff(from_snapshot_id=first.id, to_snapshot_id=newest.id)


def test_a_log_that_is_damaged_otherwise_is_refused(tmp_path: Path) -> None:
    place = Path(unpacked("2.0.0a3", tmp_path))
    repository = Repository.open(local_filesystem_storage(str(place)))
    newest, *_, first = repository.ancestry(branch="dev")
    for log in (place / "transactions").iterdir():
        log.write_bytes(log.read_bytes()[:-7])
    with pytest.raises(FormatError, match="transactions/"):
        repository.diff(from_snapshot_id=first.id, to_snapshot_id=newest.id)
