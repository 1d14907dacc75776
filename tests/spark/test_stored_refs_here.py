"""References as columns and as manifests that executors write: the same commit, in this process.

Random arrays with older manifests, split in another way, of which some chunks are overwritten and
some emptied, by random tasks. No Spark needed.
"""

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import icechunk
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
import zarr
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import frazil
from frazil.engine.refs.version import Exactly
from frazil.errors import InvalidInputError
from frazil.format.chunk_index import Box
from frazil.format.chunk_refs import ChunkRefs
from frazil.paths import NodePath
from frazil.spark.runtime.executor import SparkExecutor
from frazil.spark.runtime.stored_refs import (
    BLOCKS,
    RefsSink,
    Stored,
    WriteCells,
    Written,
    empty_blocks,
    plan_target,
)
from tests.examples_count import scaled

PATH = NodePath("/v")
NO_EXECUTOR = cast("SparkExecutor", None)  # is asked for a log of many chunks only

type Index = npt.NDArray[np.uint32]


@dataclass(frozen=True)
class Task:
    index: list[tuple[int, ...]]
    is_set: list[bool]  # the others are emptied
    seed: int


@dataclass(frozen=True)
class Case:
    before: tuple[int, ...]  # grids
    grid: tuple[int, ...]
    old: list[tuple[int | None, list[tuple[int, ...]]]]  # splitting and chunks of earlier commits
    split: int | None
    tasks: list[Task]
    boxed: bool  # whether the part that gets chunks is told
    inline: bool = False


@st.composite
def cases(draw: st.DrawFn) -> Case:
    ndim = draw(st.integers(0, 3))
    before = tuple(draw(st.integers(1, 5)) for _ in range(ndim))
    grid = tuple(n + draw(st.integers(0, 2)) for n in before)
    splits = st.none() | st.integers(1, 4)
    old = draw(st.lists(st.tuples(splits, _chunks(before)), max_size=3))
    chosen = draw(_chunks(grid))
    tasks, left = [], list(chosen)
    while left:
        count = draw(st.integers(1, len(left)))
        flags = draw(st.lists(st.booleans(), min_size=count, max_size=count))
        tasks.append(Task(left[:count], flags, draw(st.integers(0, 2**32 - 1))))
        left = left[count:]
    return Case(before, grid, old, draw(splits), tasks, draw(st.booleans()), draw(st.booleans()))


def _chunks(grid: tuple[int, ...]) -> st.SearchStrategy[list[tuple[int, ...]]]:
    return st.lists(st.tuples(*(st.integers(0, n - 1) for n in grid)), unique=True, max_size=12)


def config(split: int | None, *, inline: bool) -> frazil.RepositoryConfig:
    made = frazil.RepositoryConfig(inline_chunk_threshold_bytes=512 if inline else 0)
    if split is not None:
        sizes: Any = {frazil.ManifestSplitDimCondition.Any(): split}
        made.manifest = frazil.ManifestConfig(
            splitting=frazil.ManifestSplittingConfig.from_dict(
                {frazil.ManifestSplitCondition.AnyArray(): sizes}
            )
        )
    return made


def chunk_bytes(seed: int, count: int) -> list[bytes]:
    """Chunks of four numbers; none is the fill value."""
    random = np.random.default_rng(seed)
    return [random.integers(1, 99, 4).astype("<i8").tobytes() for _ in range(count)]


def make(folder: Path, case: Case) -> None:
    """Branches `few` and `many`, at the same commit."""
    storage = frazil.local_filesystem_storage(str(folder))
    repo = frazil.Repository.create(storage, config(case.split, inline=case.inline))
    session = repo.writable_session("main")
    zarr.create_array(
        session.store, name="v", shape=shape_of(case.before), dtype="<i8", compressors=None,
        chunks=shape_of((1,) * len(case.before)), fill_value=0,
    )  # fmt: skip
    session.commit("array")
    for split, chunks in case.old:
        session = frazil.Repository.open(
            storage, config(split, inline=case.inline)
        ).writable_session("main")
        for number, index in enumerate(chunks):
            session.engine.set_chunk(PATH, index, chunk_bytes(number, 1)[0][: size_of(case)])
        session.commit("chunks", allow_empty=True)
    for name in ("few", "many"):
        repo.create_branch(name, repo.lookup_branch("main"))


def shape_of(grid: tuple[int, ...]) -> tuple[int, ...]:
    """Shape of so many chunks, which have four elements along the first axis."""
    return tuple(n * (1 if axis else 4) for axis, n in enumerate(grid))


def size_of(case: Case) -> int:
    return 32 if case.before else 8


def open_repository(folder: Path, case: Case) -> frazil.Repository:
    storage = frazil.local_filesystem_storage(str(folder))
    return frazil.Repository.open(storage, config(case.split, inline=case.inline))


def store(folder: Path, case: Case, written: list[Written], *, many: bool) -> Stored:
    """What tasks stored, into a commit, as the driver and executors do it."""
    repo = frazil.Repository.open(
        frazil.local_filesystem_storage(str(folder)), config(case.split, inline=case.inline)
    )
    session = repo.writable_session("many" if many else "few")
    array = zarr.open_array(session.store, path="v")
    if case.grid != case.before:
        array.resize(shape_of(case.grid))
    engine = session.engine
    base = repo.engine.readonly_session(Exactly(engine.snapshot_id))
    index = [each for task in case.tasks for each in task.index]
    box = Box.around(np.array(index, np.uint32).reshape(len(index), len(case.grid)))
    target = plan_target(engine, PATH, box if case.boxed else None)
    sink = RefsSink(NO_EXECUTOR, engine, base, (target,), many)
    batches = [batch for one in written for batch in sink.gather()([one])]
    table = pa.Table.from_batches(batches, schema=BLOCKS)
    if not many:
        stored = sink.set_refs(table)
    else:
        empty = [block.to_row() for block in empty_blocks((target,))]
        more = pa.Table.from_pylist(empty, schema=BLOCKS)
        rows = pa.concat_tables([table, more]).sort_by("cell")
        made = WriteCells(base, (target,))(rows.to_batches(max_chunksize=2))
        found = list(made)
        stored = sink.attach(pa.Table.from_batches(found)) if found else sink.set_refs(table)
    session.commit("tasks", allow_empty=True)
    return stored


def written_by(folder: Path, case: Case) -> list[Written]:
    repo = frazil.Repository.open(
        frazil.local_filesystem_storage(str(folder)), config(case.split, inline=case.inline)
    )
    writer = repo.writable_session("main").engine.chunk_writer()
    made = []
    for number, task in enumerate(case.tasks):
        index = np.array(task.index, np.uint32).reshape(len(task.index), len(case.grid))
        flags = np.array(task.is_set, np.bool_)
        data = [each[: size_of(case)] for each in chunk_bytes(task.seed, int(flags.sum()))]
        refs = writer.put_chunks(index[flags], data)
        made.append(Written(0, refs, index[~flags], number, bytes([number])))
    writer.sync()
    return made


def references(folder: Path, branch: str) -> ChunkRefs:
    repo = frazil.Repository.open(frazil.local_filesystem_storage(str(folder)))
    session = repo.readonly_session(branch).engine
    parts = list(session.chunk_refs(PATH))
    return ChunkRefs.concat([ChunkRefs.empty(len(session.node(PATH).array.shape)), *parts])  # type: ignore[union-attr]  # it is an array


def by_icechunk(folder: Path, branch: str) -> tuple[npt.NDArray[Any], list[list[int]]]:
    """Values, and the chunks that the last commit changed."""
    repo = icechunk.Repository.open(icechunk.local_filesystem_storage(str(folder)))
    tip, before = list(repo.ancestry(branch=branch))[:2]
    changed = repo.diff(from_snapshot_id=before.id, to_snapshot_id=tip.id).updated_chunks
    values = zarr.open_array(repo.readonly_session(branch).store, path="v", mode="r")[...]
    return np.asarray(values), sorted(changed.get("/v", []))


# a manifest over two cells, of which one changes; a manifest of which nothing is left
WIDE = Case((6,), (6,), [(4, [(0,), (1,), (2,), (3,), (5,)])], 2, [Task([(0,)], [True], 3)], False)
EMPTIED = Case((4,), (4,), [(2, [(0,), (1,), (2,)])], 2, [Task([(0,), (1,)], [False] * 2, 3)], True)


@settings(max_examples=scaled(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(cases())
@example(WIDE)
@example(EMPTIED)
def test_executors_write_the_manifests_that_a_commit_would_have_meant(case: Case) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        make(folder, case)
        written = written_by(folder, case)
        few, many = (store(folder, case, written, many=each) for each in (False, True))
        assert (few.chunks, few.size_bytes, few.counts) == (
            many.chunks, many.size_bytes, many.counts,
        )  # fmt: skip
        assert sorted(few.notes) == sorted(many.notes)
        assert references(folder, "few").equals(references(folder, "many"))
        values, changed = by_icechunk(folder, "many")
        wanted, wanted_changes = by_icechunk(folder, "few")
        np.testing.assert_array_equal(values, wanted)
        assert changed == wanted_changes


@pytest.mark.parametrize("emptied", [False, True])
def test_a_chunk_that_two_tasks_wrote_is_an_error(tmp_path: Path, *, emptied: bool) -> None:
    case = Case((4,), (4,), [], 2, [Task([(1,)], [True], 1), Task([(1,)], [not emptied], 2)], False)
    make(tmp_path, case)
    written = written_by(tmp_path, case)
    for many in (False, True):
        with pytest.raises(Exception, match="two tasks wrote the same chunk of 'v'"):
            store(tmp_path, case, written, many=many)


def test_a_task_that_wrote_a_chunk_twice_is_an_error(tmp_path: Path) -> None:
    case = Case((4,), (4,), [], None, [Task([(1,)], [True], 1)], False)
    make(tmp_path, case)
    (once,) = written_by(tmp_path, case)
    repo = frazil.Repository.open(frazil.local_filesystem_storage(str(tmp_path)))
    target = plan_target(repo.readonly_session("main").engine, PATH)
    sink = RefsSink(NO_EXECUTOR, cast("Any", None), cast("Any", None), (target,), many=True)
    with pytest.raises(InvalidInputError, match="two tasks wrote the same chunk of 'v'"):
        list(sink.gather()([once, once]))
