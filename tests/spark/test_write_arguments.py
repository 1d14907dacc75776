"""Arguments of `frazil.spark.write` that are no such thing: told before Spark does anything."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import frazil
import frazil.spark
from frazil.errors import IcechunkError

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"dims": "t"}, "dims is 't', expected a list of names"),
    ({"dims": []}, "'dims' is missing"),
    ({"dims": ["t", "q"]}, "'dims' names 'q'"),
    ({"dims": ["t", "t"]}, "names a column twice"),
    ({"mode": "replace"}, "mode is 'replace', expected 'create'"),
    ({"mode": 3}, "mode is 3, expected 'create'"),
    ({"chunks": {"t": "x"}}, "chunks has 'x' for 't', expected whole numbers"),
    ({"chunks": {"t": 1.5}}, r"chunks has 1\.5 for 't'"),
    ({"chunks": {"t": 0}}, "option 'chunks' says 0 along 't'"),
    ({"chunks": 5}, "chunks is 5, expected whole numbers by name"),
    ({"chunks": {"q": 5}}, "'chunks' names 'q'"),
    ({"positions": "t"}, "positions is 't', expected a list of names"),
    ({"order": {"t": "up"}}, "expected 'ascending' or 'descending'"),
    ({"append_dim": "q"}, "'appendDim' is 'q'"),
    ({"dtypes": {"v": "float65"}}, "data type 'float65' not understood"),
    ({"dtypes": {"v": 3}}, "dtypes has 3 for 'v', expected texts"),
    ({"fill": {"v": "x"}}, "'fill' gives 'x'"),
    ({"units": {"v": "hours since 2000-01-01"}}, "which is float, no time"),
    ({"attrs": {"v": 3}}, "attrs has 3 for 'v', expected mappings"),
    ({"codecs": "zstd"}, "codecs is 'zstd', expected a list"),
    ({"codecs": [3]}, r"codecs is \[3\], expected a list"),
    ({"metadata": 3}, "metadata is 3"),
    ({"txn": "x"}, "txn is 'x', expected an application and a version"),
    ({"txn": ("x",)}, "expected an application and a version"),
    ({"tolerance": 3}, "tolerance is 3, expected numbers by name"),
    ({"tolerance": {"t": "x"}}, "tolerance has 'x' for 't'"),
    ({"group": "a/../b"}, "must be canonical"),
    ({"branch": "nope"}, "ref not found"),
    ({"storage": {"region": "x"}}, "goes with a location"),
]


@pytest.mark.spark
def test_wrong_arguments_are_told(spark: SparkSession, tmp_path: Path) -> None:
    repository = frazil.Repository.create(frazil.local_filesystem_storage(tmp_path))
    frame = spark.range(1).selectExpr("id AS t", "CAST(id AS FLOAT) AS v")
    for arguments, message in WRONG:
        with pytest.raises(IcechunkError, match=message):
            frazil.spark.write(frame, repository, **{"dims": ["t"], **arguments})
    no_json: dict[str, Any] = {"metadata": {"a": object()}}
    with pytest.raises(TypeError, match="which is not JSON"):
        frazil.spark.write(frame, repository, dims=["t"], **no_json)
    with pytest.raises(IcechunkError, match="doesn't exist"):
        frazil.spark.write(frame, tmp_path / "nowhere", dims=["t"])
    assert len(list(repository.ancestry(branch="main"))) == 1
