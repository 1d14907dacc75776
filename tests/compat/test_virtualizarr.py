"""VirtualiZarr writes references to NetCDF files through frazil, where icechunk is not installed.

What it leaves is what it leaves through the reference, and the reference reads the values.
"""

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from zarr.abc.store import Store

from tests.compat.driver import OURS, REFERENCE, Engine, assert_same
from tests.environments import make_environment

VALUES = np.arange(24.0).reshape(4, 6)
LAST_UPDATED = datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC)
WRITE = """
import sys
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

files, root, with_frazil, moment = Path(sys.argv[1]), *sys.argv[2:]
if with_frazil == "yes":
    try:
        sys.exit(f"icechunk {version('icechunk')} is here")
    except PackageNotFoundError:
        pass
    import frazil
    frazil.install_as_icechunk()

import icechunk
from obspec_utils.registry import ObjectStoreRegistry
from obstore.store import LocalStore
from virtualizarr import open_virtual_dataset
from virtualizarr.parsers import HDFParser

def virtual(number):
    registry = ObjectStoreRegistry({"file://": LocalStore()})
    return open_virtual_dataset(
        url=f"file://{files}/{number}.nc",
        registry=registry,
        parser=HDFParser(),
        loadable_variables=["time"],
    )

prefix = f"file://{files}/"
store = icechunk.ObjectStoreConfig.LocalFileSystem(str(files))
config = icechunk.RepositoryConfig.default()
config.set_virtual_chunk_container(icechunk.VirtualChunkContainer(prefix, store))
repo = icechunk.Repository.create(icechunk.local_filesystem_storage(root), config)
repo.save_config()
session = repo.writable_session("main")
virtual(0).vz.to_icechunk(session.store, last_updated_at=datetime.fromisoformat(moment))
session.commit("the first file")
session = repo.writable_session("main")
virtual(1).vz.to_icechunk(session.store, append_dim="time")
session.commit("and the next")
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two NetCDF files, older than LAST_UPDATED, with a variable of four chunks each."""
    folder = tmp_path_factory.mktemp("files")
    for number in range(2):
        data = xr.Dataset(
            {"t": (("time", "x"), VALUES + number, {"units": "K"}), "n": ("x", np.arange(6))},
            coords={"time": np.arange(4) + 4 * number},
            attrs={"title": "weather"},
        )
        path = folder / f"{number}.nc"
        data.to_netcdf(path, engine="h5netcdf", encoding={"t": {"chunksizes": (2, 3)}})
        long_ago = (LAST_UPDATED - timedelta(days=1)).timestamp()
        os.utime(path, (long_ago, long_ago))
    return folder


@pytest.fixture(scope="module")
def written(files: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Path]]:
    """By engine, the repository it wrote, and the files that its chunks are in."""
    folder = tmp_path_factory.mktemp("written")
    alone = make_environment(folder / "environment", without={"icechunk"})
    found = {}
    for engine, python in ((OURS, alone), (REFERENCE, Path(sys.executable))):
        root, is_ours = folder / engine.name, "yes" if engine is OURS else "no"
        arguments = [str(files), str(root), is_ours, str(LAST_UPDATED)]
        command = [str(python), "-W", "error", "-c", WRITE, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        found[engine.name] = (root, files)
    return found


def references(engine: Engine, root: Path, path: str) -> list[tuple[object, ...]]:
    """Of each chunk its index, kind, location, offset, length."""
    store: Any = engine.open(root).readonly_session("main").store
    rows: list[tuple[object, ...]] = []
    for index, kinds, locations, offsets, lengths, _ in store.array_chunk_iterator(path):
        columns = (kinds.tolist(), locations, offsets.tolist(), lengths.tolist())
        rows += zip(map(tuple, index.tolist()), *columns, strict=True)
    return sorted(rows)


def read(root: Path, files: Path) -> xr.Dataset:
    """By the reference."""
    module = REFERENCE.module
    credentials = module.containers_credentials({f"file://{files}/": None})
    repo = module.Repository.open(
        REFERENCE.storage(root), authorize_virtual_chunk_access=credentials
    )
    store: Store = repo.readonly_session("main").store
    data: xr.Dataset = xr.open_zarr(store, consolidated=False)
    return data


def test_the_references_are_those_that_it_sets_through_the_reference(
    written: dict[str, tuple[Path, Path]],
) -> None:
    roots = [written[engine.name][0] for engine in (OURS, REFERENCE)]
    for path in ("t", "n"):
        found = [references(REFERENCE, root, path) for root in roots]
        assert_same(found[0], found[1], path)
        assert_same(references(OURS, roots[0], path), found[0], f"{path}, read by frazil")
    located = references(OURS, roots[0], "t")
    assert len(located) == 8
    assert {Path(str(row[2])).name for row in located} == {"0.nc", "1.nc"}
    messages = [info.message for info in REFERENCE.open(roots[0]).ancestry(branch="main")]
    assert messages == ["and the next", "the first file", "Repository initialized"]


@pytest.mark.filterwarnings("ignore:.*credential.*:DeprecationWarning")
def test_the_reference_reads_the_values(written: dict[str, tuple[Path, Path]]) -> None:
    data = read(*written[OURS.name])
    np.testing.assert_array_equal(data["t"], np.concatenate([VALUES, VALUES + 1]))
    assert data["t"].attrs["units"] == "K"
    assert data.attrs["title"] == "weather"
    np.testing.assert_array_equal(data["time"], np.arange(8))
    xr.testing.assert_identical(data.load(), read(*written[REFERENCE.name]).load())


@pytest.mark.filterwarnings("ignore:.*credential.*:DeprecationWarning")
def test_a_file_that_was_changed_since_is_noticed(written: dict[str, tuple[Path, Path]]) -> None:
    """So the moment that VirtualiZarr gave is stored with the chunks of the first file."""
    root, files = written[OURS.name]
    os.utime(files / "0.nc")
    data = read(root, files)
    with pytest.raises(REFERENCE.module.StorageError) as caught:
        data["t"][:4].load()
    assert caught.value.kind == "virtual-chunk-modified"
    np.testing.assert_array_equal(data["t"][4:], VALUES + 1)
