"""A selection reads its own chunks, of the variables it names: counted."""

from pathlib import Path

import pytest
import zarr

from frazil.api import Repository
from frazil.format.chunk_refs import Native
from frazil.paths import NodePath
from frazil.spark import plan_read
from frazil.spark.table.options import ReadOptions
from frazil.spark.table.scan_plan import list_chunks
from tests.spark.in_process import InProcessReader, counted
from tests.spark.repositories import make_weather


@pytest.fixture(scope="module")
def weather(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pruned") / "weather"
    make_weather(path)
    return path


def expected_objects(reader: InProcessReader) -> set[str]:
    found = set()
    for variable in reader.scans[0].table.variables:
        for index in list_chunks(reader.scans[0].axes, variable):
            payload = reader.opened.session.chunk_payload(NodePath(variable.path), index)
            assert isinstance(payload, Native)
            found.add(f"chunks/{payload.chunk_id}")
    return found


def require_counts(path: Path, options: ReadOptions, variables: set[str], chunks: int) -> None:
    store, reader = counted(str(path), options)
    assert {v.name for v in reader.scans[0].table.variables} == variables
    wanted = expected_objects(reader)
    assert len(wanted) == chunks * len(variables)
    coordinates = {"time", "lat", "lon"} & {c.name for c in reader.scans[0].table.columns}
    store.clear()
    reader.table()
    fetched = [each.key for each in store.reads if each.key.startswith("chunks/")]
    assert wanted <= set(fetched)
    assert len(fetched) == len(set(fetched)) <= len(wanted) + len(coordinates)


def test_positions_prune_as_values_do(weather: Path) -> None:
    by_value = plan_read(weather, variables="t2m", sel={"lat": slice(50, 90)})
    by_position = plan_read(weather, variables="t2m", isel={"lat": slice(0, 5)})
    assert by_position.chunks_read == by_value.chunks_read == 12
    require_counts(weather, by_value.options, {"t2m"}, 12)
    require_counts(weather, by_position.options, {"t2m"}, 12)
    together = plan_read(weather, variables="t2m", isel={"time": 0}, sel={"lat": slice(50, 90)})
    assert together.chunks_read == 3
    require_counts(weather, together.options, {"t2m"}, 3)


def test_dimensions_choose_among_variables(tmp_path: Path) -> None:
    repository: Repository = make_weather(tmp_path / "r")
    with repository.transaction("main", message="more") as store:
        zarr.group(store).create_array("mask", shape=(19, 36), chunks=(19, 36), dtype="i1",
                                       dimension_names=("lat", "lon"))  # fmt: skip
    with pytest.raises(ValueError, match=r"pressure, t2m \(time: 48, lat: 19, lon: 36\)") as caught:
        plan_read(repository)
    assert "mask (lat: 19, lon: 36)" in str(caught.value)
    assert "option `dims`" in str(caught.value)
    assert {r.variable for r in plan_read(repository, dims=["lon", "lat"]).reads} == {"mask"}
    both = plan_read(repository, dims=["time", "lat", "lon"])
    assert {r.variable for r in both.reads} == {"t2m", "pressure"}
    with pytest.raises(ValueError, match=r"no variable of group '/' has the dimensions \(lat\)"):
        plan_read(repository, dims=["lat"])
