"""Pipelines given what cannot be: told before anything is done, or nothing is committed."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from pyspark.sql import SparkSession

import frazil
from frazil.api import Repository
from frazil.errors import AlreadyExistsError, IcechunkError, InvalidInputError
from frazil.spark import Output, clone, explain_clone, export, map_blocks, rechunk, reduce
from frazil.spark.pipelines.clone import clone as run_clone
from tests.spark.repositories import make_weather

pytestmark = pytest.mark.spark


@pytest.fixture
def repo(tmp_path: Path) -> Iterator[Repository]:
    """As it was, whatever a test tried to do to it."""
    made = make_weather(tmp_path / "repo")
    tip = made.lookup_branch("main")
    yield made
    assert made.lookup_branch("main") == tip
    assert made.list_branches() == {"main"}
    assert zarr.open_array(made.readonly_session("main").store, path="t2m", mode="r").shape


RECHUNKS: list[tuple[dict[str, Any], str]] = [
    ({"chunks": {"time": 2.5}}, r"chunks has 2\.5, expected a whole number"),
    ({"chunks": {"time": "x"}}, "chunks has 'x'"),
    ({"chunks": {"time": True}}, "chunks has True"),
    ({"chunks": {"time": -5}}, "along 'time' are -5: at least 1, or -1"),
    ({"chunks": "time"}, "chunks is 'time', expected lengths"),
    ({"shards": 24}, "shards is 24, expected lengths"),
    ({"shards": {"time": 5}}, "not whole chunks"),
    ({"codecs": "zstd"}, "codecs is 'zstd', expected a list"),
    ({"codecs": [3]}, "codecs has 3, expected a name"),
    ({"codecs": [{"nam": "zstd"}]}, "codecs has .*, expected a name"),
    ({"codecs": [{"name": "zstd", "configuration": {"level": "x"}}]}, "expected int, got 'x'"),
    ({"path": "t2m", "chunks": {"time": 3}, "into": "lat"}, "a node at `/lat` already"),
    ({"path": "t2m", "chunks": {"time": 3}, "into": "lat/x"}, "`/lat` is an array"),
    ({"chunks": {"time": 3}, "branch": "nope"}, "ref not found"),
]


def test_rechunks_that_cannot_be(spark: SparkSession, repo: Repository) -> None:
    for arguments, message in RECHUNKS:
        with pytest.raises(IcechunkError, match=message):
            rechunk(spark, repo, **arguments)


def same(block: Any) -> Any:
    return block


MAPS: list[tuple[Any, dict[str, Any], dict[str, Any], str]] = [
    (3, {"v": "f4"}, {}, "function is 3, which cannot be called"),
    (same, {}, {}, "at least one input and one output"),
    (same, {"v": "foo"}, {}, "output `v`: data type 'foo'"),
    (same, {"t2m": "f4"}, {}, "there is an array at `/t2m` already"),
    (same, {"/": "f4"}, {"overwrite": True}, "a group at `/`: it is not overwritten"),
    (same, {"t2m/x": "f4"}, {}, "`/t2m` is an array"),
    (same, {"v": "f4"}, {"blocks": {"time": 0}}, "not whole chunks"),
    (same, {"v": "f4"}, {"blocks": {"time": 1.5}}, "expected a whole number"),
    (same, {"v": Output(dtype="f4", dims=("time", "time"))}, {}, "a dimension twice"),
    (same, {"v": Output(dtype="f4", chunks={"time": 0})}, {}, "chunks of 0 along 'time'"),
    (same, {"v": Output(dtype="f4", chunks={"tim": 2})}, {}, r"chunks name \['tim'\]"),
    (same, {"v": Output(dtype="f4", sizes={"time": 3})}, {}, "'time' is of size 48 in the inputs"),
    (same, {"v": Output(dtype="f4", dims=("b",), sizes={"b": -1})}, {}, "sizes of -1 along 'b'"),
]
RETURNS: list[tuple[Callable[[Any], Any], dict[str, Any], str]] = [
    (lambda _: None, {"v": "f4"}, r"a block of shape \(\) for `v`, expected \(48, 19, 36\)"),
    (lambda x: x[:1], {"v": "f4"}, r"shape \(1, 19, 36\) for `v`"),
    (lambda x: (x, x), {"v": "f4"}, "returned tuple, expected 1 arrays"),
    (lambda x: x, {"v": "f4", "w": "f4"}, "returned ndarray, expected 2 arrays"),
    (lambda x: x.astype("c8"), {"v": "f4"}, "returned complex64 for `v`, which is float32"),
]


def test_maps_that_cannot_be(spark: SparkSession, repo: Repository) -> None:
    for function, outputs, arguments, message in MAPS:
        with pytest.raises(IcechunkError, match=message):
            map_blocks(spark, repo, function, "t2m", outputs, **arguments)
    for function, outputs, message in RETURNS:
        with pytest.raises(InvalidInputError, match=message):
            map_blocks(spark, repo, function, "t2m", outputs)


REDUCTIONS: list[tuple[dict[str, Any], str]] = [
    ({"variables": [], "over": "time"}, "names no variable"),
    ({"variables": "nope", "over": "time"}, "no array 'nope'"),
    ({"variables": ["t2m", "lat"], "over": "lat"}, "'lat' is a coordinate of the other"),
    ({"over": "tiem"}, r"over is \['tiem'\], the dimensions are"),
    ({"over": "time", "how": None}, "how is None"),
    ({"groupby": "time.moon"}, "there is year, month"),
    ({"over": "time", "into": "lat"}, "there is an array at `/lat`"),
    ({"over": "time", "into": "/"}, "there is already 't2m' in group `/`"),
    ({"over": "time", "group": "nope"}, "node not found"),
    ({"over": "time", "branch": "nope"}, "ref not found"),
]


def test_reductions_that_cannot_be(spark: SparkSession, repo: Repository) -> None:
    for arguments, message in REDUCTIONS:
        with pytest.raises(IcechunkError, match=message):
            reduce(spark, repo, **{"variables": "t2m", **arguments})


def test_a_reduction_does_not_join_a_group_with_other_coordinates(
    spark: SparkSession, tmp_path: Path
) -> None:
    repo = make_weather(tmp_path / "other")
    reduce(spark, repo, "t2m", over="time", into="mean")
    reduce(spark, repo, "pressure", over="time", into="mean")  # the same latitudes
    with repo.transaction("main", message="another grid") as store:
        group = zarr.open_group(store)
        group.create_array("half/lat", data=np.arange(19.0), dimension_names=["lat"])
        group.create_array("hours/hour", data=np.arange(7), dimension_names=["hour"])
    with pytest.raises(AlreadyExistsError, match="another coordinate at `/half/lat`"):
        reduce(spark, repo, "t2m", over="time", into="half")
    with pytest.raises(AlreadyExistsError, match="another coordinate at `/hours/hour`"):
        reduce(spark, repo, "t2m", groupby="time.hour", into="hours")


EXPORTS: list[tuple[dict[str, Any], str]] = [
    ({"format": "csv"}, "expected zarr, parquet, netcdf"),
    ({"branch": "nope"}, "ref not found"),
    ({"tag": "nope"}, "ref not found"),
    ({"snapshot": "nope"}, "invalid snapshot id"),
    ({"branch": "main", "tag": "v"}, "give one of branch, tag and snapshot"),
    ({"group": "nope"}, "node not found"),
    ({"variables": []}, "names no variable"),
    ({"split": {"time": 2}}, "split is for format='netcdf'"),
    ({"format": "netcdf", "split": {"time": 0}}, "lengths above 0"),
]


def test_exports_that_cannot_be(spark: SparkSession, repo: Repository, tmp_path: Path) -> None:
    for arguments, message in EXPORTS:
        with pytest.raises(IcechunkError, match=message):
            export(spark, repo, tmp_path / "new", **arguments)
    assert not (tmp_path / "new").exists()


def test_exports_onto_what_is_there(spark: SparkSession, repo: Repository, tmp_path: Path) -> None:
    folder, file = tmp_path / "folder", tmp_path / "file"
    folder.mkdir()
    (folder / "kept").write_text("kept")
    file.write_text("kept")
    refused: list[tuple[Path, dict[str, Any]]] = [
        (folder, {"format": "zarr"}),
        (folder, {"format": "zarr", "overwrite": True}),  # it is no Zarr store
        (file, {"format": "zarr"}),
        (folder, {"format": "parquet"}),
        (file, {"format": "parquet"}),
        (folder, {"format": "netcdf"}),
        (folder, {"format": "netcdf", "overwrite": True}),
        (file, {"format": "netcdf"}),
        (file, {"format": "netcdf", "overwrite": True, "split": {"time": 24}}),
    ]
    for target, arguments in refused:
        with pytest.raises(AlreadyExistsError):
            export(spark, repo, target, variables=["t2m"], **arguments)
    for kind in ("zarr", "parquet", "netcdf"):
        for target in (tmp_path / "repo", tmp_path / "repo" / "below", tmp_path):
            with pytest.raises(InvalidInputError, match="in the place of the source"):
                export(spark, repo, target, format=kind, overwrite=True)
    assert (folder / "kept").read_text() + file.read_text() == "keptkept"


def test_an_export_in_fewer_files_leaves_none_of_the_one_before(
    spark: SparkSession, repo: Repository, tmp_path: Path
) -> None:
    for length in (12, 24):
        export(
            spark, repo, tmp_path / "files", format="netcdf", variables=["t2m"],
            split={"time": length}, overwrite=True,
        )  # fmt: skip
    names = sorted(path.name for path in (tmp_path / "files").iterdir())
    assert names == ["part-00000.nc", "part-00001.nc"]


def test_clones_that_cannot_be(spark: SparkSession, repo: Repository, tmp_path: Path) -> None:
    folder, file = tmp_path / "folder", tmp_path / "file"
    folder.mkdir()
    (folder / "kept").write_text("kept")
    file.write_text("kept")
    for target in (tmp_path / "repo", tmp_path / "repo" / "copy", tmp_path):
        with pytest.raises(InvalidInputError, match="in the place of the source"):
            clone(spark, repo, target, refs=["main"])
        with pytest.raises(InvalidInputError, match="in the place of the source"):
            explain_clone(repo, target)
    for deep in (True, False):
        with pytest.raises(InvalidInputError, match=r"clean|no part of a repository"):
            run_clone(spark, repo, folder, deep=deep)
        with pytest.raises(AlreadyExistsError, match="there is a file"):
            run_clone(spark, repo, file, deep=deep)
    with pytest.raises(frazil.IcechunkError, match="no branch or tag"):
        clone(spark, repo, tmp_path / "new", refs=[])
    with pytest.raises(frazil.IcechunkError, match="doesn't exist"):
        clone(spark, tmp_path / "nowhere", tmp_path / "new")
    assert [path.name for path in folder.iterdir()] == ["kept"]
    assert not (tmp_path / "new").exists()
