"""Functions over blocks on real Spark, against numpy over whole arrays."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from frazil.api import Repository, local_filesystem_storage
from frazil.errors import AlreadyExistsError, InvalidInputError, NodeNotFoundError
from frazil.spark.pipelines.map_blocks import Block, Output, map_blocks, plan_axis, read_block

SHAPE = (6, 11, 13)


def field() -> npt.NDArray[np.float64]:
    return np.random.default_rng(3).normal(size=SHAPE)


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    made = Repository.create(local_filesystem_storage(tmp_path / "repo"))
    with made.transaction("main", message="data") as store:
        group = zarr.group(store)
        for name, data, dims in (
            ("u", field(), ["time", "lat", "lon"]),
            ("weight", np.arange(11.0), ["lat"]),
        ):
            chunks = (2, 4, 5)[: data.ndim] if data.ndim == 3 else (4,)
            group.create_array(name, data=data, chunks=chunks, dimension_names=dims)
    return made


def read(repo: Repository, path: str) -> npt.NDArray[Any]:
    array = zarr.open_array(repo.readonly_session("main").store, path=path, mode="r")
    return np.asarray(array[...])


def smooth(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A mean of five along lat and lon; meaningless at the outermost, which the halo covers."""
    made = values.copy()
    made[:, 1:-1, 1:-1] = (
        values[:, 1:-1, 1:-1]
        + values[:, :-2, 1:-1]
        + values[:, 2:, 1:-1]
        + values[:, 1:-1, :-2]
        + values[:, 1:-1, 2:]
    ) / 5
    return made


@pytest.mark.spark_matrix
@pytest.mark.spark
def test_a_stencil_with_a_halo_is_that_of_the_whole_array(
    spark: SparkSession, repo: Repository
) -> None:
    result = map_blocks(
        spark,
        repo,
        smooth,
        "u",
        {"made/smooth": "f8"},
        blocks={"time": 2, "lat": 4, "lon": 5},
        halo={"lat": 1, "lon": (1, 1)},
        boundary={"lat": "nearest", "lon": "wrap"},
        idempotency_key="s",
    )
    padded = np.pad(field(), [(0, 0), (1, 1), (0, 0)], mode="edge")
    padded = np.pad(padded, [(0, 0), (0, 0), (1, 1)], mode="wrap")
    np.testing.assert_allclose(read(repo, "made/smooth"), smooth(padded)[:, 1:-1, 1:-1])
    assert (result.blocks, result.chunks, result.committed) == (27, 27, True)
    again = map_blocks(spark, repo, smooth, "u", {"made/smooth": "f8"}, idempotency_key="s")
    assert (again.snapshot_id, again.committed) == (result.snapshot_id, False)
    with pytest.raises(AlreadyExistsError, match="made/smooth"):
        map_blocks(spark, repo, smooth, "u", {"made/smooth": "f8"})


@pytest.mark.spark
def test_several_inputs_and_outputs_with_dropped_and_new_dimensions(
    spark: SparkSession, repo: Repository
) -> None:
    def weigh(
        u: npt.NDArray[Any], weight: npt.NDArray[Any], *, block: Block
    ) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        weighted = u * weight[:, None]
        start = block.region["lon"].start
        lon = np.arange(start, start + u.shape[2], dtype=np.int32)
        return weighted.mean(axis=1).astype(np.float32), np.stack([lon, -lon])

    map_blocks(
        spark,
        repo,
        weigh,
        ["u", "weight"],
        {
            "mean": Output(dtype="f4", dims=("time", "lon"), attrs={"units": "m/s"}),
            "/columns": Output(dtype="i4", dims=("sign", "lon"), sizes={"sign": 2}),
        },
        blocks={"time": -1},
        with_block=True,
    )
    expected = (field() * np.arange(11.0)[:, None]).mean(axis=1)
    np.testing.assert_allclose(read(repo, "mean"), expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(read(repo, "columns"), [np.arange(13), -np.arange(13)])
    mean = zarr.open_array(repo.readonly_session("main").store, path="mean", mode="r")
    assert mean.attrs["units"] == "m/s"
    assert mean.chunks == (2, 5)


@pytest.mark.spark
def test_a_failing_function_commits_nothing(spark: SparkSession, repo: Repository) -> None:
    tip = repo.lookup_branch("main")

    def fail(_: npt.NDArray[Any]) -> npt.NDArray[Any]:
        raise ZeroDivisionError("on purpose")

    with pytest.raises(Exception, match="on purpose"):
        map_blocks(spark, repo, fail, "u", {"v": "f8"})
    with pytest.raises(InvalidInputError, match=r"shape \(6, 11\)"):
        map_blocks(spark, repo, lambda u: u[:, :, 0], "u", {"v": "f8"})
    with pytest.raises(InvalidInputError, match="which is int16"):
        map_blocks(spark, repo, lambda u: u, "u", {"v": "i2"})
    assert repo.lookup_branch("main") == tip


@pytest.mark.spark
def test_what_does_not_fit_is_refused(spark: SparkSession, repo: Repository) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"blocks": {"lat": 3}}, "not whole chunks of 4"),
        ({"halo": {"height": 1}}, "halo name"),
        ({"halo": {"lat": -1}}, "at least 0"),
        ({"boundary": "periodic"}, "boundary is 'periodic'"),
    ]
    for arguments, said in wrong:
        with pytest.raises(InvalidInputError, match=said):
            map_blocks(spark, repo, smooth, "u", {"v": "f8"}, **arguments)
    lacking = {"v": Output(dtype="f8", dims=("time", "band"))}
    with pytest.raises(InvalidInputError, match="sizes of the new"):
        map_blocks(spark, repo, smooth, "u", lacking)
    with pytest.raises(NodeNotFoundError):
        map_blocks(spark, repo, smooth, "nope", {"v": "f8"})


@given(
    size=st.integers(1, 9),
    halo=st.tuples(st.integers(0, 12), st.integers(0, 12)),
    boundary=st.sampled_from(["clip", "nearest", "reflect", "wrap", -7.5]),
    data=st.data(),
)
def test_a_halo_is_what_numpy_pads(
    size: int, halo: tuple[int, int], boundary: Any, data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, size - 1))
    stop = data.draw(st.integers(start + 1, size))
    values = np.arange(size, dtype=np.float64) ** 2
    axis = plan_axis(slice(start, stop), size, halo, boundary)
    got = read_block(lambda region: values[region], [axis], [boundary])
    if boundary == "clip":
        expected = values[max(0, start - halo[0]) : stop + halo[1]]
    else:
        modes: dict[Any, Any] = {"nearest": "edge", "reflect": "reflect", "wrap": "wrap"}
        options = {"constant_values": boundary} if boundary not in modes else {}
        whole = np.pad(values, halo, mode=modes.get(boundary, "constant"), **options)
        expected = whole[start : stop + sum(halo)]
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(got[axis.before : len(got) - axis.after], values[start:stop])
