"""The commands of the pipelines, in the session of the tests: a JVM for each would take long."""

import json
from pathlib import Path

import numpy as np
import pytest
import zarr
from typer.testing import CliRunner

from frazil.api import Repository, local_filesystem_storage
from frazil.cli.main import app

pytestmark = pytest.mark.spark

VALUES = np.arange(600.0).reshape(30, 20)


def run(*arguments: object) -> str:
    answer = CliRunner().invoke(app, [str(one) for one in arguments], catch_exceptions=False)
    assert answer.exit_code == 0, answer.output
    return answer.stdout


@pytest.mark.usefixtures("spark")
def test_rechunk_export_and_clone_from_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "repo"
    repo = Repository.create(local_filesystem_storage(path))
    with repo.transaction("main", message="data") as store:
        zarr.create_array(
            store, name="a/x", data=VALUES, chunks=(10, 10), dimension_names=["time", "lat"]
        )
    chunks = ("--chunks", "time=-1,lat=5", "--codec", "zstd")
    done = json.loads(run("rechunk", path, "a/x", *chunks, "--json"))
    assert (done["arrays"], done["chunks"], done["committed"]) == (1, 4, True)
    array = zarr.open_array(repo.readonly_session("main").store, path="a/x", mode="r")
    assert array.chunks == (30, 5)
    assert run("rechunk", path, "a/x", *chunks).startswith("nothing to do")

    assert "4 objects" in run("export", path, tmp_path / "out.zarr")
    found = zarr.open_array(str(tmp_path / "out.zarr"), path="a/x", mode="r")
    np.testing.assert_array_equal(found, VALUES)

    assert run("clone", path, tmp_path / "copy").startswith("cloned 3 snapshots")
    assert "would be brought up to date" in run("clone", path, tmp_path / "copy", "--dry-run")
    copy = Repository.open(local_filesystem_storage(tmp_path / "copy"))
    assert copy.lookup_branch("main") == repo.lookup_branch("main")


@pytest.mark.usefixtures("spark")
def test_reduce_and_map_blocks_from_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "repo"
    repo = Repository.create(local_filesystem_storage(path))
    with repo.transaction("main", message="data") as store:
        zarr.create_array(
            store, name="a/x", data=VALUES, chunks=(10, 10), dimension_names=["time", "lat"]
        )
    mean = ("reduce", path, "x", "--group", "a", "--over", "time")
    rows = json.loads(run(*mean, "--json"))
    assert [row["x"] for row in rows] == VALUES.mean(axis=0).tolist()
    assert run(*mean, "--over", "lat").split() == ["x", str(VALUES.mean())]
    assert json.loads(run(*mean, "--into", "mean", "--json"))["committed"]
    found = zarr.open_array(repo.readonly_session("main").store, path="mean/x", mode="r")
    np.testing.assert_array_equal(found, VALUES.mean(axis=0))

    script = tmp_path / "functions.py"
    script.write_text("def twice(values):\n    return 2 * values\n")
    made = run("map-blocks", path, f"{script}:twice", "a/x", "--output", "a/twice=f8")
    assert "1 array," in made
    doubled = zarr.open_array(repo.readonly_session("main").store, path="a/twice", mode="r")
    np.testing.assert_array_equal(doubled, 2 * VALUES)
