"""`frazil sql` over virtual chunks: who runs it says where they may be read."""

from pathlib import Path

import numpy as np
import pytest
import zarr

import frazil
from tests.cli.running import fails, succeeds

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

QUERY = "SELECT v FROM repo WHERE x > 1"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A coordinate of four values, virtual; a variable along it."""
    files = tmp_path / "files"
    files.mkdir()
    (files / "x.bin").write_bytes(np.arange(4, dtype="<i4").tobytes())
    config = frazil.RepositoryConfig()
    store = frazil.local_filesystem_store(str(files))
    config.set_virtual_chunk_container(frazil.VirtualChunkContainer(f"file://{files}/", store))
    path = tmp_path / "repository"
    storage = frazil.local_filesystem_storage(path)
    session = frazil.Repository.create(storage, config).writable_session("main")
    for name in ("x", "v"):
        zarr.create_array(
            session.store, name=name, shape=(4,), chunks=(4 if name == "x" else 1,), dtype="<i4",
            filters=None, compressors=None, dimension_names=("x",),
        )  # fmt: skip
    session.store.set_virtual_ref("x/c/0", f"file://{files}/x.bin", offset=0, length=16)
    session.commit("virtual")
    return path


def test_leave_is_given_by_an_option(repository: Path, tmp_path: Path) -> None:
    error, *_ = fails("sql", repository, QUERY, "--explain")
    assert "authorize the virtual chunk container" in error
    leave = f"file://{tmp_path / 'files'}/=local"
    answer = succeeds("sql", repository, QUERY, "--authorize", leave, "--explain")
    assert "2 of 4 chunks" in answer.out


def test_a_wrong_word_is_named(repository: Path) -> None:
    error, *_ = fails("sql", repository, QUERY, "--authorize", "file:///x/=all", "--explain")
    assert "expected 'local'" in error
