"""How work is cut, without Spark."""

from math import prod
from pathlib import Path

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

from frazil.api import Repository, local_filesystem_storage
from frazil.engine.refs.version import Branch
from frazil.paths import NodePath
from frazil.spark.pipelines.rechunk import count_reads, plan_rechunk
from frazil.spark.pipelines.relayout import Wanted, pieces, read_bounded
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
def test_reads_of_chunks_are_counted(lengths: list[tuple[int, int, int]]) -> None:
    shape, box, source = (tuple(one[k] for one in lengths) for k in range(3))
    cut, reads, chunks = Cut(shape, box), 0, 1
    for n, size in zip(shape, source, strict=True):
        chunks *= -(-n // size)
    for number in range(len(cut)):
        region = zip(cut.region(number), source, strict=True)
        reads += prod(len({k // size for k in range(p.start, p.stop)}) for p, size in region)
    assert count_reads(shape, box, source) == pytest.approx(reads / chunks)


def test_tasks_are_larger_where_small_ones_would_read_the_source_often(tmp_path: Path) -> None:
    repository = Repository.create(local_filesystem_storage(tmp_path))
    with repository.transaction("main", message="maps") as store:
        zarr.create_array(
            store,
            name="maps",
            shape=(4800, 180, 360),
            chunks=(24, 180, 360),
            dtype="f4",
            dimension_names=["t", "y", "x"],
        )
    session = repository._engine.readonly_session(Branch("main"))
    for chunks, most, times in (({"t": 4800, "y": 10, "x": 10}, 4, 6), ({"t": 12}, 1, 1)):
        plan = plan_rechunk(
            session, NodePath("/maps"), NodePath("/new"), Wanted(chunks=chunks), parallelism=2
        )
        (rewrite,) = plan.rewrites
        assert 4 * prod(rewrite.cut.box) <= most * jobs.MAX_TASK_BYTES
        assert count_reads(rewrite.cut.shape, rewrite.cut.box, (24, 180, 360)) <= times


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
