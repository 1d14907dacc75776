"""Rechunk, export and clone. What starts a JVM is marked; mistakes must be noticed before that."""

from pathlib import Path

import numpy as np
import pytest
import zarr

import frazil as frazil_api
from tests.cli.running import fails, frazil, succeeds

SPARK_S = 300


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    path = tmp_path / "repo"
    made = frazil_api.Repository.create(frazil_api.local_filesystem_storage(str(path)))
    with made.transaction("main", message="data") as store:
        zarr.create_array(
            store,
            name="a/x",
            data=np.arange(600.0).reshape(30, 20),
            chunks=(10, 10),
            dimension_names=["time", "lat"],
        )
    made.create_tag("v1", made.lookup_branch("main"))
    return path


@pytest.mark.spark
def test_rechunk_export_and_clone(repo: Path, tmp_path: Path) -> None:
    options = ("a/x", "--chunks", "time=-1,lat=5", "--codec", "zstd", "--json")
    done = succeeds("rechunk", repo, *options, timeout_s=SPARK_S).json
    assert (done["arrays"], done["chunks"], done["committed"]) == (1, 4, True)
    opened = frazil_api.Repository.open(frazil_api.local_filesystem_storage(str(repo)))
    array = zarr.open_array(opened.readonly_session("main").store, path="a/x", mode="r")
    assert array.chunks == (30, 5)

    out = tmp_path / "out.zarr"
    assert "4 objects" in succeeds("export", repo, out, timeout_s=SPARK_S).out
    found = zarr.open_array(str(out), path="a/x", mode="r")
    np.testing.assert_array_equal(found, np.arange(600.0).reshape(30, 20))

    said = succeeds("clone", repo, tmp_path / "copy", timeout_s=SPARK_S).out
    assert said.startswith("cloned 3 snapshots")
    assert succeeds("log", tmp_path / "copy").out == succeeds("log", repo).out


def test_dry_runs_show_the_plan_and_do_nothing(repo: Path, tmp_path: Path) -> None:
    before = succeeds("log", repo, "--json").json
    options = ("--chunks", "time=15", "--shards", "time=30", "--dry-run")
    header, row = succeeds("rechunk", repo, *options).lines
    assert header.split() == ["array", "shape", "chunks", "shards", "codecs", "MB", "tasks"]
    assert row.split()[:4] == ["/a/x", "30", "x", "20"]
    (array,) = succeeds("rechunk", repo, *options, "--json").json["arrays"]
    assert (array["chunks"], array["shards"]) == ([15, 10], [30, 10])
    assert succeeds("rechunk", repo, "--chunks", "time=10", "--dry-run").lines == ["nothing to do"]

    target = tmp_path / "target"
    (listed,) = succeeds("export", repo, target, "--dry-run", "--json").json["arrays"]
    assert listed == {"array": "/a/x", "chunks": 6}
    plan = succeeds("clone", repo, target, "--ref", "v1", "--dry-run", "--json").json
    assert (plan["tags"], plan["snapshots"], plan["exists"]) == (["v1"], 2, False)
    assert "would be made: main, v1" in succeeds("clone", repo, target, "--dry-run").out
    assert succeeds("log", repo, "--json").json == before
    assert not target.exists()


def test_mistakes_are_noticed_before_spark_starts(repo: Path, tmp_path: Path) -> None:
    assert "no dimension 'tiem'" in fails("rechunk", repo, "--chunks", "tiem=3")[0]
    assert "nothing to change" in fails("rechunk", repo)[0]
    assert "nope" in fails("rechunk", repo, "nope", "--chunks", "time=3")[0]
    assert "no codec 'zip'" in fails("rechunk", repo, "--codec", "zip")[0]
    assert frazil("rechunk", repo, "--chunks", "time").code == 2
    assert "nope" in fails("export", repo, tmp_path / "o", "--group", "nope")[0]
    assert "nope" in fails("export", repo, tmp_path / "o", "--tag", "nope")[0]
    assert frazil("export", repo, tmp_path / "o", "--format", "csv").code == 2
    assert "nope" in fails("clone", repo, tmp_path / "o", "--ref", "nope")[0]
