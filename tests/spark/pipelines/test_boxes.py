"""How work is cut, without Spark."""

from dataclasses import replace
from math import prod
from pathlib import Path
from random import Random

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

from frazil.api import Repository, in_memory_storage, local_filesystem_storage
from frazil.engine.refs.version import Branch
from frazil.engine.session.session import Session
from frazil.errors import ObjectNotFoundError
from frazil.paths import NodePath
from frazil.spark.pipelines.rechunk_plan import Rewrite, plan_rechunk
from frazil.spark.pipelines.relayout import Wanted, pieces, read_bounded
from frazil.spark.pipelines.scratch import Exchange, scratch_objects
from frazil.spark.runtime import jobs
from frazil.spark.runtime.executor import Amounts
from frazil.spark.runtime.jobs import Cut, choose_box, region_shape

LENGTHS = st.lists(st.tuples(st.integers(1, 20), st.integers(1, 9), st.integers(1, 9)), max_size=3)


@given(LENGTHS, st.integers(1, 4000))
def test_boxes_cover_the_array_once_in_whole_units_within_the_limit(
    lengths: list[tuple[int, int, int]], limit: int
) -> None:
    shape, unit, source = (tuple(one[k] for one in lengths) for k in range(3))
    box = choose_box(shape, unit, source, itemsize=8, max_bytes=limit)
    assert all(b % u == 0 for b, u in zip(box, unit, strict=True))
    assert 8 * prod(box) <= max(limit, 8 * prod(unit))
    covered = np.zeros(shape, dtype=int)
    cut = Cut(shape, box)
    for number in range(len(cut)):
        covered[cut.region(number)] += 1
    assert (covered == 1).all()
    shapes = [region_shape(cut.region(number)) for number in range(len(cut))]
    assert cut.sizes.tolist() == [prod(one) for one in shapes]


@given(LENGTHS)
def test_overlaps_of_two_grids_are_counted_and_found(lengths: list[tuple[int, int, int]]) -> None:
    shape, box, other = (tuple(one[k] for one in lengths) for k in range(3))
    cut, second, pairs = Cut(shape, box), Cut(shape, other), 0
    for number in range(len(cut)):
        inside = np.zeros(shape, bool)
        inside[cut.region(number)] = True
        overlapping = [k for k in range(len(second)) if inside[second.region(k)].any()]
        assert second.touched(cut.region(number)) == overlapping
        pairs += len(overlapping)
    assert cut.count_touched(other) == pairs


DTYPES = st.sampled_from(["u1", "i2", ">f4", "c16", "M8[s]", "U3", "S5", "bool", "f4,i8"])


@given(LENGTHS, DTYPES, st.randoms(use_true_random=False))
def test_values_come_through_scratch_objects_unchanged(
    lengths: list[tuple[int, int, int]], dtype: str, random: Random
) -> None:
    shape, first, second = (tuple(one[k] for one in lengths) for k in range(3))
    data = np.frombuffer(random.randbytes(prod(shape)), np.uint8).reshape(shape)
    values = data.view("bool") > 127 if dtype == "bool" else data.astype(dtype)
    exchange = Exchange(Cut(shape, first), Cut(shape, second), values.dtype, start=3)
    files = Repository.create(in_memory_storage())._engine.files
    before = list(files.store.list())
    with scratch_objects(files.store, 3 + exchange.objects) as scratch:
        for number in range(exchange.objects):
            box = values[exchange.first.region(number)]
            scratch.put(files.store, 3 + number, exchange.split(number, box))
        made = np.empty_like(values)
        for number in range(len(exchange.second)):
            made[exchange.second.region(number)] = exchange.join(number, files, scratch)
    np.testing.assert_array_equal(made, values)
    assert list(files.store.list()) == before


def test_a_task_that_outlives_its_job_leaves_nothing() -> None:
    store = Repository.create(in_memory_storage())._engine.files.store
    before = list(store.list())
    with scratch_objects(store, 1) as scratch:
        pass
    with pytest.raises(ObjectNotFoundError):
        scratch.put(store, 0, np.zeros(3))
    assert list(store.list()) == before


def plan_of(session: Session, chunks: dict[str, int]) -> Rewrite:
    wanted = Wanted(chunks=chunks)
    plan = plan_rechunk(session, NodePath("/maps"), NodePath("/new"), wanted, parallelism=2)
    (rewrite,) = plan.rewrites
    return rewrite


def test_the_plan_that_moves_the_fewest_bytes_is_taken(tmp_path: Path) -> None:
    repository = Repository.create(local_filesystem_storage(tmp_path))
    for hours in (480, 4800):
        with repository.transaction("main", message="maps") as store:
            zarr.create_array(
                store,
                name="maps",
                shape=(hours, 180, 360),
                chunks=(24, 180, 360),
                dtype="f4",
                dimension_names=["t", "y", "x"],
                overwrite=True,
            )
        session = repository._engine.readonly_session(Branch("main"))
        series = plan_of(session, {"t": hours, "y": 10, "x": 10})
        days = plan_of(session, {"t": 12})
        assert (days.reads, days.scratch_bytes) == (1, 0)
        size = hours * 180 * 360 * 4
        if hours == 480:  # larger boxes will do
            assert (series.exchange, series.reads) == (None, 2)
        else:
            assert (series.reads, series.scratch_bytes) == (1, size)
            assert 4 * prod(series.cut.box) <= jobs.MAX_TASK_BYTES
            assert series.exchange
            assert 4 * prod(series.exchange.first.box) <= jobs.MAX_TASK_BYTES
        direct = replace(series, exchange=None)
        assert series.cost_bytes <= direct.cost_bytes


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=50), st.data())
def test_progress_of_ranges_adds_up_to_the_total(sizes: list[int], data: st.DataObject) -> None:
    count = len(sizes)
    at = data.draw(st.integers(0, count))
    for given_sizes in (sizes, np.array(sizes, np.uint64), sum(sizes)):
        amounts = Amounts(count, given_sizes)
        assert amounts.total == sum(sizes)
        assert amounts.of(range(at)) + amounts.of(range(at, count)) == amounts.total


@given(LENGTHS, st.integers(1, 2000), st.data())
def test_pieces_cover_the_region_once_and_touch_few_chunks(
    lengths: list[tuple[int, int, int]], limit: int, data: st.DataObject
) -> None:
    shape, chunks = (tuple(one[k] for one in lengths) for k in range(2))
    region = []
    for n in shape:
        start = data.draw(st.integers(0, n - 1))
        region.append(slice(start, data.draw(st.integers(start + 1, n))))
    covered = np.zeros(shape, dtype=int)
    for part in pieces(tuple(region), chunks, itemsize=8, max_bytes=limit):
        covered[part] += 1
        touched = [-(-p.stop // c) - p.start // c for p, c in zip(part, chunks, strict=True)]
        assert 8 * prod(touched) * prod(chunks) <= max(limit, 8 * prod(chunks))
    assert (covered[tuple(region)] == 1).all()
    assert covered.sum() == prod(region_shape(tuple(region)))


def test_a_region_read_in_pieces_is_that_region(tmp_path: Path) -> None:
    repo = Repository.create(local_filesystem_storage(tmp_path / "repo"))
    values = np.arange(20 * 13.0).reshape(20, 13)
    with repo.transaction("main", message="data") as store:
        zarr.create_array(store, name="v", data=values, chunks=(1, 5))
    session = repo.readonly_session("main").engine
    region = (slice(2, 19), slice(4, 11))
    found = read_bounded(session, NodePath("/v"), region, (1, 5), itemsize=8, max_bytes=100)
    np.testing.assert_array_equal(found, values[region])
