import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import frazil
from frazil.objectstore.credentials import LocalFileSystemAccess
from tests.cli.running import fails, succeeds

VALUES = np.arange(12, dtype="<i4").reshape(3, 4)
ARRAY = {
    "shape": [3, 4],
    "chunks": [1, 4],
    "dtype": "<i4",
    "fill_value": 0,
    "order": "C",
    "filters": None,
    "compressor": None,
    "zarr_format": 2,
}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "some files"
    folder.mkdir()
    (folder / "values.bin").write_bytes(VALUES.tobytes())
    refs: dict[str, Any] = {"a/.zarray": ARRAY, ".zgroup": {"zarr_format": 2}}
    refs |= {f"a/{row}.0": ["values.bin", 16 * row, 16] for row in range(3)}
    (folder / "refs.json").write_text(json.dumps({"version": 1, "refs": refs}))
    return folder


def test_references_become_arrays_in_one_commit(files: Path, tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    succeeds("init", repo)
    answer = succeeds(
        "import-kerchunk", repo, files / "refs.json", "--root", files, "--files-in", files,
        "--group", "x", "-m", "by hand", "--json",
    )  # fmt: skip
    assert (answer.json["arrays"], answer.json["virtual_chunks"], answer.json["files"]) == (1, 3, 1)
    prefix = f"{files.as_uri()}/"
    opened = frazil.Repository.open(
        frazil.local_filesystem_storage(str(repo)),
        authorize_virtual_chunk_access={prefix: LocalFileSystemAccess()},
    )
    array = zarr.open_array(opened.readonly_session("main").store, path="x/a", mode="r")
    np.testing.assert_array_equal(array, VALUES)
    assert next(each.message for each in opened.ancestry(branch="main")) == "by hand"


def test_files_that_no_container_covers_are_named_and_nothing_is_done(
    files: Path, tmp_path: Path
) -> None:
    repo = tmp_path / "repo"
    succeeds("init", repo)
    lines = fails("import-kerchunk", repo, files / "refs.json", "--root", files)
    assert "values.bin" in lines[0]
    assert len(succeeds("log", repo, "--json").json) == 1


def test_a_set_that_is_damaged_is_named(files: Path, tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    succeeds("init", repo)
    (files / "refs.json").write_text('{"version": 1, "refs": {"a/.zarray": {}}}')
    lines = fails("import-kerchunk", repo, files / "refs.json", "--files-in", files)
    assert "refs.json" in lines[0]
    assert "a/.zarray" in lines[0]
    opened = frazil.Repository.open(frazil.local_filesystem_storage(str(repo)))
    assert not opened.config.virtual_chunk_containers
