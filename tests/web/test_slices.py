"""What is read for a picture stays within its budget; pictures are what PNG decoders expect."""

import io
from functools import partial
from math import prod

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from frazil.api import Repository, local_filesystem_storage
from frazil.cli.views.values_view import select
from frazil.errors import InvalidInputError
from frazil.paths import NodePath
from frazil.web.explored import Explored, Memory
from frazil.web.http import Asked
from frazil.web.images import DIVERGING, SCALES, encode_png, ordered_colours, paint, scale
from frazil.web.previews import preview
from frazil.web.slices import Budget, Grid, parse_grid, plan_slice, touched_chunks
from tests.examples_count import scaled
from tests.unit.spark.cf_cases import Encoded, encodings

BUDGET = Budget(pixels=64, chunks=50, stored_bytes=50_000, decoded_bytes=400_000)


def thousand_each(index: npt.NDArray[np.uint32]) -> int:
    return 1000 * len(index)


@given(
    sizes=st.lists(st.tuples(st.integers(1, 3000), st.integers(1, 40)), min_size=2, max_size=4),
    data=st.data(),
)
def test_a_slice_stays_within_the_budget(sizes: list[tuple[int, int]], data: st.DataObject) -> None:
    shape, chunks = zip(*sizes, strict=True)
    axes = tuple(data.draw(st.permutations(range(len(shape))))[:2])
    at = [data.draw(st.integers(0, 5000)) for _ in shape]
    grid = Grid(shape, chunks)
    try:
        plan = plan_slice(
            grid, axes=axes, at=at, item_bytes=4, stored_bytes=thousand_each, budget=BUDGET
        )
    except InvalidInputError:  # one chunk alone would be too much
        assert prod(chunks) * 4 > BUDGET.decoded_bytes
        return
    touched = touched_chunks(grid, plan.positions)
    assert 1 <= len(touched) <= BUDGET.chunks
    assert thousand_each(touched) <= BUDGET.stored_bytes
    assert len(touched) * prod(chunks) * 4 <= BUDGET.decoded_bytes
    values = np.zeros(shape, np.uint8) if prod(shape) < 10**7 else None
    for axis, positions in enumerate(plan.positions):
        assert 1 <= len(positions) <= (BUDGET.pixels if axis in axes else 1)
        assert positions[0] >= 0
        assert positions[-1] < shape[axis]
        chosen = np.arange(shape[axis])[plan.selection[axis]]
        assert chosen.tolist() == positions.tolist()
    if values is not None:
        assert values[plan.selection].shape == tuple(map(len, plan.positions))


def test_small_arrays_are_shown_whole() -> None:
    grid = Grid((60, 40), (10, 10))
    plan = plan_slice(
        grid, axes=(0, 1), at=(0, 0), item_bytes=4, stored_bytes=thousand_each, budget=BUDGET
    )
    assert plan.steps == (1, 1)
    assert list(map(len, plan.positions)) == [60, 40]


def test_shards_cost_what_is_read_of_them() -> None:
    document = {
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1000, 1000]}},
        "codecs": [{"name": "sharding_indexed", "configuration": {"chunk_shape": [10, 10]}}],
    }
    grid = parse_grid(document, (5, 1000, 1000)[1:])
    plan = plan_slice(
        grid, axes=(0, 1), at=(0, 0), item_bytes=4, stored_bytes=lambda _: 10**6, budget=BUDGET
    )
    assert max(plan.steps) > 10
    assert all(len(positions) >= 4 for positions in plan.positions)


def test_chunks_of_unequal_sizes_are_found() -> None:
    document = {
        "chunk_grid": {
            "name": "rectilinear",
            "configuration": {"kind": "inline", "chunk_shapes": [[[3, 2], 4], 5]},
        }
    }
    grid = parse_grid(document, (10, 12))
    assert grid.chunk_of(0, np.arange(10)).tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 2]
    assert grid.chunk_of(1, np.arange(12)).tolist() == [0] * 5 + [1] * 5 + [2] * 2


def test_a_grid_of_too_many_sizes_is_refused() -> None:
    document = {
        "chunk_grid": {"name": "rectilinear", "configuration": {"chunk_shapes": [[[1, 2**40]]]}}
    }
    with pytest.raises(InvalidInputError, match="too many sizes"):
        parse_grid(document, (2**40,))


def test_a_picture_is_read_by_others_as_it_was_made() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (17, 31, 4), np.uint8)
    image = Image.open(io.BytesIO(encode_png(pixels)))
    assert (image.format, image.mode, image.size) == ("PNG", "RGBA", (31, 17))
    assert np.array_equal(np.asarray(image), pixels)


@pytest.mark.parametrize("name", SCALES)
def test_colours_follow_the_values(name: str) -> None:
    values = np.array([[0.0, 5.0, 10.0, np.nan, np.inf, -np.inf]])
    is_valid = ~np.isnan(values)
    pixels = paint(values, is_valid, low=0, high=10, name=name)
    colours = scale(name)
    assert pixels[0, 0].tolist() == colours[0].tolist() == pixels[0, 5].tolist()
    assert pixels[0, 2].tolist() == colours[255].tolist() == pixels[0, 4].tolist()
    assert pixels[0, 3].tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("name", ["viridis", "magma"])
def test_scales_are_those_of_matplotlib(name: str) -> None:
    wanted = mpl.colormaps[name](np.linspace(0, 1, 256))[:, :3] * 255
    assert np.abs(scale(name)[:, :3] - wanted).max() < 4


def test_the_middle_of_the_diverging_scale_is_neutral() -> None:
    low, middle = scale(DIVERGING, 5)[[0, 2], :3].astype(int)
    assert np.ptp(middle) < 8
    assert middle.min() > 230
    assert low.max() < 80


def test_values_that_are_all_the_same_have_a_colour() -> None:
    values = np.full((2, 2), 7.0)
    pixels = paint(values, values == 7, low=7, high=7, name="viridis")
    assert (pixels[:, :, 3] == 255).all()


@pytest.mark.parametrize("count", [0, 1, 8, 9, 500])
def test_there_is_a_colour_for_each(count: int) -> None:
    assert ordered_colours(count).shape == (count, 4)


def test_results_are_made_once_and_forgotten_in_order() -> None:
    memory: Memory[int] = Memory(2)
    made: list[int] = []

    def make(value: int) -> int:
        made.append(value)
        return value

    for value in (1, 2, 1, 3, 1, 2):
        assert memory.recall(value, partial(make, value)) == value
    assert made == [1, 2, 3, 2]


def test_a_result_that_failed_is_tried_again() -> None:
    memory: Memory[int] = Memory(2)
    with pytest.raises(ZeroDivisionError):
        memory.recall("key", lambda: 1 // 0)
    assert memory.recall("key", lambda: 5) == 5


@settings(max_examples=scaled(6))
@given(st.lists(encodings(), min_size=5, max_size=5))
def test_previews_and_the_command_line_decode_as_xarray_does(
    tmp_path_factory: pytest.TempPathFactory, cases: list[Encoded]
) -> None:
    """By the one decoder that Spark's tables have."""
    repository = Repository.create(local_filesystem_storage(tmp_path_factory.mktemp("cf") / "r"))
    with repository.transaction("main", message="encoded") as store:
        for k, case in enumerate(cases):
            attrs = {k: "NaN" if v != v else v for k, v in case.attrs.items()}  # noqa: PLR0124  # NaN
            zarr.group(store).create_array(
                f"v{k}",
                data=case.stored,
                dimension_names=["x"],
                attributes=attrs,
                fill_value=0,
                config={"write_empty_chunks": True},
            )
    explored = Explored(repository.engine, "encoded")
    snapshot = explored.snapshot("main")
    for k, case in enumerate(cases):
        path, expected = NodePath(f"/v{k}"), case.expected
        found = preview(explored, snapshot, path, Asked({}))
        printed = select(explored.session(snapshot), path, {}, {}).values(decoded=True)
        assert found.is_valid[0].tolist() == (~pd.isna(expected)).tolist()
        assert pd.isna(printed).tolist() == pd.isna(expected).tolist()
        valid = ~pd.isna(expected)
        if case.is_time:
            apart = np.abs((printed - expected)[valid].astype(np.int64))
            assert apart.max(initial=0) <= 1
            texts = [np.datetime64(text, "us") for text in np.array(found.texts)[valid]]
            assert texts == printed[valid].tolist()
        else:
            numbers = found.values  # noqa: PD011  # not of pandas
            assert numbers is not None
            np.testing.assert_allclose(numbers[0][valid], expected[valid], rtol=1e-6)
            np.testing.assert_allclose(printed[valid], expected[valid], rtol=1e-6)
