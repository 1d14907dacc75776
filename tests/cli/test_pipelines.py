"""Pipelines without a JVM: tests/spark/pipelines/test_commands.py runs them."""

from pathlib import Path

import numpy as np
import pytest
import zarr

import frazil as frazil_api
from tests.cli.running import fails, frazil, succeeds


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


def test_dry_runs_show_the_plan_and_do_nothing(repo: Path, tmp_path: Path) -> None:
    before = succeeds("log", repo, "--json").json
    options = ("--chunks", "time=15", "--shards", "time=30", "--dry-run")
    header, row = succeeds("rechunk", repo, *options).lines
    sizes = "size read scratch"
    assert " ".join(header.split()) == f"array shape chunks shards codecs {sizes} tasks"
    assert row.split()[:4] == ["/a/x", "30", "x", "20"]
    (array,) = succeeds("rechunk", repo, *options, "--json").json["arrays"]
    assert (array["chunk_shape"], array["shard_shape"]) == ([15, 10], [30, 10])
    assert (array["read_bytes"], array["scratch_bytes"]) == (array["size_bytes"], 0)
    assert succeeds("rechunk", repo, "--chunks", "time=10", "--dry-run").lines == ["nothing to do"]

    told = succeeds("reduce", repo, "x", "--group", "a", "--over", "time", "--dry-run", "--json")
    assert (told.json["shape"], told.json["dimension_names"]) == ([20], ["lat"])

    target = tmp_path / "target"
    (listed,) = succeeds("export", repo, target, "--dry-run", "--json").json["arrays"]
    assert listed == {"path": "/a/x", "chunks": 6}
    plan = succeeds("clone", repo, target, "--ref", "v1", "--dry-run", "--json").json
    assert (plan["tags"], plan["snapshots"], plan["exists"]) == (["v1"], 2, False)
    assert succeeds("log", repo, "--json").json == before
    assert not target.exists()


def test_mistakes_are_noticed_before_spark_starts(repo: Path, tmp_path: Path) -> None:
    assert "no dimension 'tiem'" in fails("rechunk", repo, "--chunks", "tiem=3")[0]
    assert "nope" in fails("rechunk", repo, "nope", "--chunks", "time=3")[0]
    assert frazil("rechunk", repo, "--chunks", "time").code == 2
    assert "nope" in fails("export", repo, tmp_path / "o", "--group", "nope")[0]
    group = ("--group", "a")
    assert "dimensions are time, lat" in fails("reduce", repo, "x", "--over", "tiem", *group)[0]
    assert "no array 'y'" in fails("reduce", repo, "y", "--over", "time", *group)[0]
    assert "already" in fails("reduce", repo, "x", "--over", "time", *group, "--into", "a")[0]
    assert frazil("map-blocks", repo, "nope.py:f", "a/x", "--output", "a/y=f8").code == 2
    assert frazil("map-blocks", repo, "math:nope", "a/x", "--output", "a/y=f8").code == 2
    assert frazil("map-blocks", repo, "math:floor", "a/x", "--output", "a/y").code == 2
    assert "nope" in fails("clone", repo, tmp_path / "o", "--ref", "nope")[0]
