"""Which arrays make one table."""

from typing import Any

import numpy as np
import pytest

from frazil.errors import InvalidInputError, NodeNotFoundError
from frazil.spark.table.description import ArrayDescription, GroupDescription, choose_grid

SIZES = {"time": 4, "lat": 3, "lon": 2, "bnds": 2}


def array(name: str, dims: str, **facts: Any) -> ArrayDescription:
    names = tuple(dims.split())
    shape = facts.pop("shape", tuple(SIZES[d] for d in names))
    return ArrayDescription(
        name=name,
        path=f"/{name}",
        dims=names,
        shape=shape,
        chunks=(1,) * len(names),
        dtype=np.dtype("f4"),
        attrs=facts,
    )


def group(*arrays: ArrayDescription) -> GroupDescription:
    return GroupDescription("/", {a.name: a for a in arrays}, ("deeper",))


TIME = array("time", "time", bounds="time_bnds")
LAT = array("lat", "lat")
T2M = array("t2m", "time lat lon", grid_mapping="crs")


def test_everything_but_coordinates_is_a_variable() -> None:
    grid = choose_grid(group(TIME, LAT, T2M, array("rain", "time lat lon")), None)
    assert grid.columns == ("time", "lat", "lon", "t2m", "rain")
    assert [d.coordinate for d in grid.dimensions] == [TIME, LAT, None]


def test_scalars_bounds_and_grid_mappings_wait_to_be_named() -> None:
    helpers = (array("crs", ""), array("time_bnds", "time bnds"), array("height", ""))
    everything = group(TIME, T2M, *helpers)
    assert [v.name for v in choose_grid(everything, None).variables] == ["t2m"]
    assert choose_grid(everything, ["time_bnds"]).columns == ("time", "bnds", "time_bnds")
    assert choose_grid(everything, ["crs"]).columns == ("crs",)


def test_a_coordinate_may_be_asked_for_alone_or_beside_its_variable() -> None:
    assert choose_grid(group(TIME, LAT, T2M), ["lat"]).columns == ("lat",)
    assert choose_grid(group(TIME, LAT, T2M), ["lat", "t2m"]).columns[-1] == "t2m"


def test_variables_that_do_not_fit_together_are_named() -> None:
    with pytest.raises(InvalidInputError) as told:
        choose_grid(group(T2M, array("u", "time lat lon"), array("ps", "time lat")), None)
    assert "t2m, u (time: 4, lat: 3, lon: 2); ps (time: 4, lat: 3)" in str(told.value)
    assert "option `variables`" in str(told.value)


def test_the_order_of_dimensions_may_differ() -> None:
    grid = choose_grid(group(T2M, array("turned", "lon lat time")), None)
    assert [d.name for d in grid.dimensions] == ["time", "lat", "lon"]


def test_what_is_missing_is_named_with_what_is_there() -> None:
    with pytest.raises(NodeNotFoundError, match="'rain' in group '/'; its arrays: t2m, time"):
        choose_grid(group(TIME, T2M), ["t2m", "rain"])
    with pytest.raises(InvalidInputError, match="no arrays; its subgroups: deeper"):
        choose_grid(group(), None)
    with pytest.raises(InvalidInputError, match="names no variable"):
        choose_grid(group(T2M), [])


def test_a_coordinate_of_the_wrong_length_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="'/lat' has 9 values, its dimension has 3"):
        choose_grid(group(array("lat", "lat", shape=(9,)), T2M), None)


def test_names_that_spark_cannot_tell_apart_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="T2M, t2m"):
        choose_grid(group(T2M, array("T2M", "time lat lon")), None)


def test_an_array_with_a_dimension_twice_is_no_table() -> None:
    with pytest.raises(InvalidInputError, match="twice"):
        array("covariance", "lat lat")
