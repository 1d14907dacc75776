"""Writing through the data source's writer, with every task in this process. No Spark needed."""

import json
from itertools import pairwise
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import icechunk
import numpy as np
import pyarrow as pa
import pytest
import zarr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

import frazil
from frazil.engine.refs.version import Branch
from frazil.engine.repository import Repository
from frazil.errors import ConflictError, IcechunkError, ObjectNotFoundError
from frazil.format.chunk_refs import ChunkRefs
from frazil.objectstore.local import LocalStore
from frazil.objectstore.memory import MemoryStore
from frazil.paths import NodePath
from frazil.spark.runtime.workers import TaskFailedError
from frazil.spark.table.options import ReadOptions
from frazil.spark.writing import assembly as assembling
from frazil.spark.writing import commit as commits
from frazil.spark.writing import stage as staging
from frazil.spark.writing.assembly import (
    assemble,
    cut_piece,
    find_spans,
    plan_boxes,
    plan_cuts,
    reads_of,
)
from frazil.spark.writing.chunk_rows import ChunkRowsWriter
from frazil.spark.writing.layout import plan_layout
from frazil.spark.writing.options import TASKS, WRITE, parse_write_options
from frazil.spark.writing.session import Assembly, prepare
from frazil.spark.writing.sink import RowsMessage, RowsWriter, answer_write
from frazil.spark.writing.stage import count_rows, find_coordinates, join_pieces, stage
from frazil.spark.writing.write_tasks import TasksWriter
from tests.examples_count import scaled
from tests.spark.in_process import counted
from tests.spark.writing_cases import (
    Case,
    Rows,
    by_tasks,
    cases,
    make_repository,
    ordered,
    table_of,
    write_here,
)

SCHEMA = StructType(
    [
        StructField("t", LongType()),
        StructField("x", DoubleType()),
        StructField("v", FloatType()),
        StructField("n", IntegerType()),
    ]
)
DIMS = {"dims": "t,x", "chunks": '{"t": 2, "x": 2}'}


def rows(times: range, xs: tuple[float, ...] = (0.0, 0.5, 1.0), *, add: float = 0) -> Rows:
    return [{"t": t, "x": x, "v": t + x + add, "n": 10 * t} for t in times for x in xs]


def zarr_group(path: Path | str, group: str = "") -> "zarr.Group":
    """As the reference sees it."""
    storage = icechunk.local_filesystem_storage(str(path))
    session = icechunk.Repository.open(storage).readonly_session("main")
    return zarr.open_group(session.store, path=group, mode="r")


def values(path: Path | str, name: str = "v") -> Any:
    return np.asarray(zarr_group(path)[name][...])  # type: ignore[index]  # an array


def messages(path: Path | str) -> list[str]:
    repository = Repository.open(LocalStore(str(path)))
    return [record.message for record in repository.ancestry(Branch("main"))][:-1]


def read_back(path: Path | str, case: Case) -> pa.Table:
    options = ReadOptions(path=str(path), variables=tuple(case.schema.names[len(case.dims) :]))
    return counted(str(path), options)[1].table().select(case.schema.names)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    make_repository(tmp_path / "repo")
    return tmp_path / "repo"


@settings(max_examples=scaled(25), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(cases())
def test_rows_become_arrays_become_the_same_rows(case: Case) -> None:
    with TemporaryDirectory() as folder:
        make_repository(Path(folder))
        write_here(folder, case.schema, case.parts, **case.options)
        wanted = table_of(case.schema, ordered(case.rows, case.dims))
        assert read_back(folder, case).to_pylist() == wanted.to_pylist()
        group = zarr_group(folder)
        for name in case.schema.names[len(case.dims) :]:
            array = group[name]
            assert isinstance(array, zarr.Array)
            assert array.chunks == tuple(case.chunks[dim] for dim in case.dims)
            assert array.metadata.dimension_names == case.dims  # type: ignore[union-attr]  # of Zarr 3


@settings(max_examples=scaled(5), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(cases(), st.none() | st.integers(1, 3), st.sampled_from([0, 512]), st.randoms())
def test_tasks_make_the_commits_of_the_driver(
    case: Case, split: int | None, inline: int, random: Random
) -> None:
    """The same cells and changed chunks, if tasks make chunks, and if they write manifests, too."""
    some = random.sample(case.rows, len(case.rows) // 2)
    emptied = [f.name for f in case.schema if isinstance(f.dataType, FloatType | IntegerType)]
    names = [name for name in emptied if name not in case.dims]
    gone = [{**row, **dict.fromkeys(names)} for row in case.rows if row not in some[1:]]
    ways = {
        "driver": {},
        "chunks": by_tasks(chunks=9999),
        "manifests": by_tasks(),
        "cut": by_tasks(chunks=9999),
        "cut manifests": by_tasks(),
    }
    seen = {}
    for name, way in ways.items():
        with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
            if name.startswith("cut"):
                patched.setattr(commits, "MOST_READS", 0)
                patched.setattr(assembling, "BOX_BYTES", 100)
            make_split(Path(folder), split, inline)
            write_here(folder, case.schema, case.parts, **case.options, **way)
            write_here(folder, case.schema, [gone[::2], gone[1::2]], mode="region", **way)
            write_here(folder, case.schema, [some], mode="upsert", **way)
            seen[name] = read_back(folder, case).to_pylist(), changed_chunks(Path(folder))
    for each in seen.values():
        assert each == seen["driver"]


def make_split(path: Path, split: int | None, inline: int) -> None:
    config = frazil.RepositoryConfig(inline_chunk_threshold_bytes=inline)
    if split is not None:
        sizes: Any = {frazil.ManifestSplitDimCondition.Any(): split}
        config.manifest = frazil.ManifestConfig(
            splitting=frazil.ManifestSplittingConfig.from_dict(
                {frazil.ManifestSplitCondition.AnyArray(): sizes}
            )
        )
    frazil.Repository.create(frazil.local_filesystem_storage(str(path)), config)


def changed_chunks(path: Path) -> list[dict[str, list[Any]]]:
    """Of each commit, as the transaction logs tell."""
    repository = frazil.Repository.open(frazil.local_filesystem_storage(str(path)))
    commits = [info.id for info in repository.ancestry(branch="main")]
    diffs = [
        repository.diff(from_snapshot_id=old, to_snapshot_id=new) for new, old in pairwise(commits)
    ]
    return [{k: sorted(map(tuple, v)) for k, v in each.updated_chunks.items()} for each in diffs]


@settings(max_examples=scaled(15), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(cases(max_size=4), st.booleans(), st.integers(1, 9), st.integers(1, 2000))
def test_rows_that_are_cut_make_the_same_chunks(
    case: Case,
    sort: bool,  # noqa: FBT001 -- drawn
    batch_rows: int,
    piece_bytes: int,
) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        patched.setattr(staging, "BATCH_ROWS", batch_rows)
        patched.setattr(staging, "PIECE_BYTES", piece_bytes)
        repository = make_repository(Path(folder))
        options = parse_write_options({"path": folder, **case.options})
        session = repository.writable_session("main")
        prepared = prepare(session, case.schema, options)
        columns = {d.name: d.column for d in prepared.target.dimensions}
        tables = [table_of(case.schema, part) for part in case.parts if part]
        if sort:
            tables = [pa.concat_tables(tables).sort_by([(dim, "descending") for dim in case.dims])]
        writer = session.chunk_writer()
        pieces = join_pieces(stage(writer, t.to_batches(), case.dims) for t in tables)
        assert pieces is not None
        found = find_coordinates(repository.store, pieces, columns)
        layout = plan_layout(prepared.target, {}, found, options.new)
        assembly = Assembly(layout, writer, None)
        boxes = plan_boxes(find_spans(layout, pieces), most_bytes=64)
        cuts = plan_cuts(boxes)
        cut = join_pieces(
            cut_piece(repository.store, pieces, k, assembly, cuts) for k in range(len(pieces))
        )
        assert cut is not None
        assert count_rows(cut) == count_rows(pieces)
        spans = find_spans(layout, cut)
        assert reads_of(spans, boxes) == pytest.approx(1)  # no batch is in two boxes
        again = find_coordinates(repository.store, cut, columns)
        assert {n: v.tolist() for n, v in again.items()} == {
            n: v.tolist() for n, v in found.items()
        }
        made = [
            [
                (one.array, one.refs.index[k].tolist(), _data(one.refs, k))
                for box in some_boxes
                for one in assemble(repository.store, some, find_spans(layout, some), assembly, box)
                for k in range(len(one.refs))
            ]
            for some, some_boxes in ((pieces, boxes), (cut, boxes), (cut, plan_boxes(spans)))
        ]
        assert sorted(made[0]) == sorted(made[1])
        assert sorted(made[0]) == sorted(made[2])


def _data(refs: ChunkRefs, row: int) -> bytes:
    payload = refs.payload(row)
    return payload.data  # type: ignore[union-attr]  # all are small, so inline


def test_appending_extends_the_first_dimension_and_keeps_the_rest(path: Path) -> None:
    write_here(path, SCHEMA, [rows(range(3))], **DIMS)
    later = rows(range(3, 6))
    write_here(path, SCHEMA, [later[::2], later[1::2]])
    assert values(path).tolist() == [[t, t + 0.5, t + 1] for t in range(6)]
    assert values(path, "t").tolist() == list(range(6))
    assert messages(path) == ["Append to /", "Append to /"]


def test_another_dimension_may_be_the_one_that_grows(path: Path) -> None:
    write_here(path, SCHEMA, [rows(range(2))], **DIMS)
    write_here(path, SCHEMA, [rows(range(2), (1.5, 2.0))], appendDim="x")
    assert values(path).tolist() == [[t + x for x in (0, 0.5, 1, 1.5, 2)] for t in range(2)]


def test_a_region_overwrites_cells_and_leaves_their_neighbours(path: Path) -> None:
    write_here(path, SCHEMA, [rows(range(4))], **DIMS)
    write_here(path, SCHEMA, [rows(range(1, 3), (0.5,), add=100)], mode="region")
    wanted = np.array([[t + x for x in (0, 0.5, 1)] for t in range(4)])
    wanted[1:3, 1] += 100
    assert (values(path) == wanted).all()


def test_a_region_of_nulls_empties_chunks(path: Path) -> None:
    write_here(path, SCHEMA, [rows(range(2))], **DIMS)
    gone = [{**row, "v": None, "n": None} for row in rows(range(2))]
    write_here(path, SCHEMA, [gone], mode="region")
    assert np.isnan(values(path)).all()
    session = Repository.open(LocalStore(str(path))).readonly_session(Branch("main"))
    assert sum(len(refs) for refs in session.chunk_refs(NodePath("/v"))) == 0


def test_an_upsert_does_both(path: Path) -> None:
    write_here(path, SCHEMA, [rows(range(2))], **DIMS)
    write_here(path, SCHEMA, [rows(range(1, 4), add=7)], mode="upsert")
    wanted = [[t + x + (7 if t else 0) for x in (0, 0.5, 1)] for t in range(4)]
    assert values(path).tolist() == wanted


def test_overwriting_replaces_the_arrays_of_the_group_only(path: Path) -> None:
    write_here(path, SCHEMA, [rows(range(2))], group="a", **DIMS)
    write_here(path, SCHEMA, [rows(range(2))], group="a/b", **DIMS)
    write_here(path, SCHEMA, [rows(range(5, 6))], group="a", dims="x,t", mode="overwrite")
    group = zarr_group(path, "a")
    assert group["v"].shape == (3, 1)  # type: ignore[union-attr]  # an array
    assert sorted(group.array_keys()) == ["n", "t", "v", "x"]
    assert zarr_group(path, "a/b")["v"].shape == (2, 3)  # type: ignore[union-attr]  # an array


def test_cells_without_a_row_are_missing(path: Path) -> None:
    write_here(path, SCHEMA, [rows(range(4))[::5]], **DIMS)
    found = values(path)
    assert np.isnan(found).sum() == found.size - 3
    options = ReadOptions(path=str(path))
    table = counted(str(path), options)[1].table()
    assert table["v"].null_count == table["n"].null_count == table.num_rows - 3


def test_arrays_are_made_as_asked(path: Path) -> None:
    write_here(
        path,
        SCHEMA,
        [[{"t": 1, "x": 0.5, "v": None, "n": 3}]],
        dims="x,t",
        positions="t",
        dtypes='{"v": "float64", "n": "uint8"}',
        fill='{"v": -1, "n": 9}',
        attrs='{"v": {"units": "K"}}',
        groupAttrs='{"title": "test"}',
        codecs='{"v": [{"name": "gzip", "configuration": {"level": 1}}]}',
        message="made",
        metadata='{"by": "me"}',
    )
    group = zarr_group(path)
    v, n = group["v"], group["n"]
    assert isinstance(v, zarr.Array)
    assert isinstance(n, zarr.Array)
    assert (str(v.dtype), str(n.dtype), v.shape) == ("float64", "uint8", (1, 2))
    assert v[...].tolist() == [[-1, -1]]  # type: ignore[union-attr]  # an array
    assert n[...].tolist() == [[9, 3]]  # type: ignore[union-attr]  # an array
    assert v.attrs["units"] == "K"
    assert [codec.__class__.__name__ for codec in v.compressors] == ["GzipCodec"]
    assert sorted(group.array_keys()) == ["n", "v", "x"]
    assert group.attrs["title"] == "test"
    record = next(iter(Repository.open(LocalStore(str(path))).ancestry(Branch("main"))))
    assert (record.message, record.metadata["by"]) == ("made", "me")


def test_no_rows_make_empty_arrays_or_nothing(path: Path) -> None:
    write_here(path, SCHEMA, [[], []], **DIMS)
    assert values(path).shape == (0, 0)
    write_here(path, SCHEMA, [[]])
    assert len(messages(path)) == 1
    write_here(path, SCHEMA, [rows(range(2), (0.0,))], mode="overwrite", **DIMS)
    assert values(path).tolist() == [[0], [1]]


def test_arrays_made_of_no_rows_take_the_first_rows(path: Path) -> None:
    write_here(path, SCHEMA, [[]], dims="t,x")
    write_here(path, SCHEMA, [rows(range(3))])
    assert values(path).tolist() == [[t, t + 0.5, t + 1] for t in range(3)]
    with pytest.raises(TaskFailedError, match=r"x is 9.0 in a row, .* outside the grid"):
        write_here(path, SCHEMA, [rows(range(3, 4), (9.0,))])


def test_shards_and_axes_in_another_order(path: Path) -> None:
    """Arrays that others made: v is sharded, n has its axes the other way round."""
    repository = icechunk.Repository.open(icechunk.local_filesystem_storage(str(path)))
    session = repository.writable_session("main")
    group = zarr.group(session.store)
    for name, data in (("t", np.arange(4)), ("x", np.array([0.0, 0.5, 1.0]))):
        group.create_array(name, data=data, dimension_names=[name])
    group.create_array(
        "v", shape=(4, 3), chunks=(1, 1), shards=(2, 3), dtype="float32", fill_value=-1,
        dimension_names=["t", "x"],
    )  # fmt: skip
    group.create_array("n", shape=(3, 4), chunks=(2, 3), dtype="int32", dimension_names=["x", "t"])
    session.commit("theirs")
    write_here(path, SCHEMA, [rows(range(1, 3), (0.5,)), rows(range(3, 6))], mode="upsert")
    wanted = np.full((6, 3), -1.0)
    wanted[1:3, 1] = [1.5, 2.5]
    wanted[3:] = [[t, t + 0.5, t + 1] for t in range(3, 6)]
    assert values(path).tolist() == wanted.tolist()
    edge, middle = [0, 0, 0, 30, 40, 50], [0, 10, 20, 30, 40, 50]
    assert values(path, "n").tolist() == [edge, middle, edge]


@pytest.mark.parametrize(
    ("bad", "options", "message"),
    [
        (rows(range(1, 2)), {"mode": "append"}, "which the array has already"),
        (rows(range(5, 6)), {"mode": "region"}, "outside the grid"),
        (rows(range(5, 6), (0.7,)), {"mode": "append"}, "x is 0.7 in a row, .* outside the grid"),
        (rows(range(5, 6)) * 2, {"mode": "append"}, "two rows are for one cell: t = 5, x = 0.0"),
        ([{**rows(range(5, 6))[0], "t": None}], {}, "'t' is NULL in 1 rows"),
        ([{**rows(range(5, 6))[0], "n": -2147483647}], {}, "stores for NULL"),
    ],
)
def test_bad_rows_fail_the_job_and_leave_the_branch_as_it_was(
    path: Path, bad: Rows, options: dict[str, str], message: str
) -> None:
    write_here(path, SCHEMA, [rows(range(2))], **DIMS)
    before = values(path)
    with pytest.raises(TaskFailedError, match=message):
        write_here(path, SCHEMA, [bad[: len(bad) // 2], bad[len(bad) // 2 :]], **options)
    assert len(messages(path)) == 1
    assert (values(path) == before).all()


# Commits, retries, aborts


def started(path: Path, *parts: Rows, **options: str) -> tuple[RowsWriter, list[Any]]:
    writer = RowsWriter(parse_write_options({"path": str(path), **DIMS, **options}), SCHEMA)
    return writer, [writer.write(iter(table_of(SCHEMA, part).to_batches())) for part in parts]


def test_a_transaction_is_made_once(path: Path) -> None:
    for _ in range(2):
        write_here(path, SCHEMA, [rows(range(2))], txnAppId="job", txnVersion="1", **DIMS)
    assert len(messages(path)) == 1
    write_here(path, SCHEMA, [rows(range(2, 3))], txnAppId="job", txnVersion="2", **DIMS)
    assert len(messages(path)) == 2


def test_twins_of_a_transaction_make_one_commit(path: Path) -> None:
    twins = [started(path, rows(range(2)), txnAppId="job", txnVersion="1") for _ in range(2)]
    for writer, told in twins:
        writer.commit(told)
    assert len(messages(path)) == 1
    assert values(path).shape == (2, 3)


def test_tasks_that_ran_twice_count_once(path: Path) -> None:
    writer, told = started(path, rows(range(2)), rows(range(2, 4)))
    writer.write(iter(table_of(SCHEMA, rows(range(2))).to_batches()))  # nobody hears of it
    writer.commit(told)
    assert values(path).shape == (4, 3)


def test_a_branch_that_moved_is_a_conflict_unless_rebasing_helps(path: Path) -> None:
    write_here(path, SCHEMA, [rows(range(4))], **DIMS)
    first, second, third = (
        started(path, rows(span, add=50), mode="region", rebase=rebase)
        for span, rebase in [(range(2), "none"), (range(2, 4), "none"), (range(2, 4), "rebase")]
    )
    first[0].commit(first[1])
    with pytest.raises(TaskFailedError, match="expected parent") as failed:
        second[0].commit(second[1])
    assert isinstance(failed.value.__cause__, ConflictError)
    assert (values(path)[2:] < 50).all()
    third[0].commit(third[1])
    assert (values(path) >= 50).all()


def test_overlapping_writes_are_never_merged_silently(path: Path) -> None:
    write_here(path, SCHEMA, [rows(range(4))], **DIMS)
    both = [started(path, rows(range(2), add=k), mode="region", rebase="rebase") for k in (50, 60)]
    both[0][0].commit(both[0][1])
    with pytest.raises(TaskFailedError, match="Rebase failed"):
        both[1][0].commit(both[1][1])
    assert values(path)[0, 0] == 50


def many_rows(**told: object) -> dict[str, str]:
    """An option of the Java side: tasks make the chunks."""
    return {WRITE: json.dumps({"job": str(uuid4()), "rows": 0, "chunks": 1 << 16, **told})}


def run_round(path: Path, given: dict[str, str], number: int) -> int:
    """Runs the tasks of a round; returns how many there were."""
    question = {"tasks": 1, "round": number, "epoch": None}
    count = int(answer_write(question, {"path": str(path), **given})["tasks"])
    if count:
        told = json.dumps(question)
        writer = TasksWriter(parse_write_options({"path": str(path), **given, TASKS: told}))
        numbers = pa.record_batch({"id": pa.array(range(count), pa.int64())})
        writer.commit([writer.write(iter([numbers]))])
    return count


def test_tasks_make_chunks_for_the_snapshot_that_the_write_began_on(path: Path) -> None:
    """A commit after that is a conflict, as it is for few rows."""
    write_here(path, SCHEMA, [rows(range(4))], **DIMS)
    given = {"mode": "region", **many_rows()}
    writer, told = started(path, rows(range(2), add=50), **given)
    write_here(path, SCHEMA, [rows(range(2), add=90)], mode="region")
    writer.commit(told)
    with pytest.raises(TaskFailedError, match="expected parent"):
        run_round(path, given, 0)
    assert values(path)[0, 0] == 90


@pytest.mark.parametrize("in_place", [False, True], ids=["by path", "of a table"])
def test_tasks_replace_what_is_there(path: Path, in_place: bool) -> None:  # noqa: FBT001
    write_here(path, SCHEMA, [rows(range(4))], **DIMS)
    given = {**DIMS, **many_rows(inPlace=in_place)}
    options = parse_write_options({"path": str(path), **given}, overwrite=True)
    writer = RowsWriter(options, SCHEMA)
    part = table_of(SCHEMA, rows(range(3, 5), add=50))
    writer.commit([writer.write(iter(part.to_batches()))])
    assert run_round(path, given, 0) >= 1
    assert run_round(path, given, 1) == 0
    assert values(path, "t").tolist() == [3, 4]
    assert values(path)[0, 0] == 53
    assert messages(path)[0] == "Overwrite /"


@pytest.mark.parametrize("many", [False, True], ids=["here", "by tasks"])
def test_a_coordinate_that_descends_goes_on_to_when_it_is_replaced(
    path: Path,
    many: bool,  # noqa: FBT001
) -> None:
    write_here(path, SCHEMA, [rows(range(4))], **DIMS, order='{"t": "descending"}')
    told = {"job": str(uuid4()), "rows": 0 if many else 99, "chunks": 99, "inPlace": True}
    given = {WRITE: json.dumps(told)}
    options = parse_write_options({"path": str(path), **given}, overwrite=True)
    writer = RowsWriter(options, SCHEMA)
    part = table_of(SCHEMA, rows(range(7, 9)))
    writer.commit([writer.write(iter(part.to_batches()))])
    assert bool(run_round(path, given, 0)) is many
    assert values(path, "t").tolist() == [8, 7]


def test_tasks_are_planned_again_if_the_branch_has_moved(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others made the grid longer, so that the rows are in other blocks of it."""
    monkeypatch.setattr(assembling, "BOX_BYTES", 1)
    monkeypatch.setattr(commits, "MOST_READS", 99)
    write_here(path, SCHEMA, [rows(range(4))], **DIMS)
    given = many_rows(inPlace=True)
    writer, told = started(path, rows(range(10, 14)), **given)
    writer.commit(told)
    write_here(path, SCHEMA, [rows(range(4, 5))])
    assert run_round(path, given, 0) > 1  # in conflict
    assert values(path, "t").tolist() == [0, 1, 2, 3, 4]
    assert run_round(path, given, 1) > 1
    assert run_round(path, given, 2) == 0
    assert values(path, "t").tolist() == [0, 1, 2, 3, 4, 10, 11, 12, 13]


def stored_objects(path: Path) -> set[str]:
    return {info.key for info in LocalStore(str(path)).list("chunks/")}


def test_an_abort_takes_staged_rows_away_and_nothing_else(path: Path) -> None:
    many = rows(range(500))
    write_here(path, SCHEMA, [many], **DIMS)
    kept = stored_objects(path)
    writer, told = started(path, [{**row, "t": row["t"] + 1000} for row in many])
    assert stored_objects(path) > kept
    writer.abort([*told, None])
    assert stored_objects(path) == kept
    assert len(messages(path)) == 1


def test_an_abort_after_a_commit_leaves_the_commit_readable(path: Path) -> None:
    writer, told = started(path, rows(range(500)))
    writer.commit(told)
    writer.abort(told)
    assert values(path).shape == (500, 3)
    assert isinstance(told[0], RowsMessage)


def test_staged_rows_are_gone_after_the_commit(path: Path) -> None:
    write_here(path, SCHEMA, [rows(range(500))], dims="t,x")
    session = Repository.open(LocalStore(str(path))).readonly_session(Branch("main"))
    used = sum(
        int((refs.kind == 1).sum())
        for node in session.nodes()
        if node.array is not None
        for refs in session.chunk_refs(node.path)
    )
    assert len(stored_objects(path)) <= used + 8


def test_text_has_no_null_unless_a_fill_is_given(path: Path) -> None:
    schema = StructType([StructField("k", LongType()), StructField("s", StringType())])
    some: Rows = [{"k": 1, "s": "a"}, {"k": 2, "s": None}]
    with pytest.raises(TaskFailedError, match="'s' has a NULL") as failed:
        write_here(path, schema, [some], dims="k")
    assert isinstance(failed.value.__cause__, IcechunkError)
    write_here(path, schema, [some], dims="k", fill='{"s": "?"}')
    assert values(path, "s").tolist() == ["a", "?"]
    table = counted(str(path), ReadOptions(path=str(path)))[1].table()
    assert table["s"].to_pylist() == ["a", None]


# Chunk rows

_PLACES = ("chunk", "offset", "shape")
CHUNK_SCHEMA = StructType(
    [
        StructField("array", StringType()),
        *(StructField(name, ArrayType(LongType())) for name in _PLACES),
        StructField("dtype", StringType()),
        StructField("data", BinaryType()),
    ]
)
CHUNK_ROW = {
    "array": "v", "chunk": [0, 0], "offset": [0, 0], "shape": [2, 1], "dtype": "<f8",
    "data": np.array([1.0, 2.0]).tobytes(),
}  # fmt: skip
ARRAYS = '{"v": {"shape": [3, 1], "chunks": [2, 1], "dtype": "float64", "fill_value": -1}}'


def write_chunks(path: Path, *rows: dict[str, Any], **options: str) -> None:
    parsed = parse_write_options({"path": str(path), "input": "chunks", **options})
    writer = ChunkRowsWriter(parsed, CHUNK_SCHEMA)
    told = [writer.write(iter(table_of(CHUNK_SCHEMA, [row]).to_batches())) for row in rows]
    writer.commit(list(told))


def test_chunk_rows_are_cells_of_arrays(path: Path) -> None:
    last = {**CHUNK_ROW, "array": "/v", "chunk": [1, 0], "offset": None, "shape": None}
    write_chunks(path, CHUNK_ROW, {**last, "data": np.array([3.0]).tobytes()}, arrays=ARRAYS)
    assert values(path).tolist() == [[1], [2], [3]]
    write_chunks(path, {**CHUNK_ROW, "data": None})
    assert values(path).tolist() == [[-1], [-1], [3]]
    with pytest.raises(TaskFailedError, match="makes 'v', which group '/' has already"):
        write_chunks(path, arrays=ARRAYS)
    assert len(messages(path)) == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"chunk": [2, 0]}, "outside the grid of 'v'"),
        ({"chunk": [0]}, "outside the grid of 'v'"),
        ({"chunk": None}, "does not say which chunk"),
        ({"array": "q"}, "a row is for the array 'q'; there is v"),
        ({"dtype": "<f4"}, "has data of '<f4', the array is float64"),
        ({"dtype": "nonsense"}, "has data of 'nonsense'"),
        ({"data": b"abc"}, "has 3 bytes, its chunk of the shape .2, 1. has 16"),
        ({"shape": [1, 1]}, "has the shape .2, 1., a row says .1, 1."),
        ({"offset": [1, 0]}, "has the offset .0, 0., a row says .1, 0."),
    ],
)
def test_bad_chunk_rows_are_told(path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(TaskFailedError, match=message):
        write_chunks(path, {**CHUNK_ROW, **change}, arrays=ARRAYS)
    assert messages(path) == []


def test_chunk_rows_for_one_chunk_are_never_lost(path: Path) -> None:
    with pytest.raises(TaskFailedError, match="two rows are for one chunk of 'v'"):
        write_chunks(path, CHUNK_ROW, CHUNK_ROW, arrays=ARRAYS)
    assert messages(path) == []


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ("{}", "has no arrays: say with the option 'arrays'"),
        ('{"v": {"shape": [3]}}', "chunks, dtype is missing"),
        (ARRAYS.replace("fill_value", "fil"), "fil is not known"),
        (ARRAYS.replace("float64", "float65"), "zarr refuses the array"),
    ],
)
def test_arrays_that_cannot_be_made(path: Path, arrays: str, message: str) -> None:
    with pytest.raises(TaskFailedError, match=message):
        write_chunks(path, arrays=arrays)
    parsed = parse_write_options({"path": str(path), "input": "chunks", "arrays": ARRAYS})
    with pytest.raises(TaskFailedError, match="chunk is missing"):
        ChunkRowsWriter(parsed, StructType([CHUNK_SCHEMA["array"], CHUNK_SCHEMA["data"]]))


def test_staged_rows_that_are_missing_are_an_error_and_not_no_rows() -> None:
    store = MemoryStore()
    staging.leave_pieces(store, "none", None)
    staging.leave_pieces(store, "some", pa.table({"bytes": [7]}))
    assert staging.take_pieces(store, "none") is None
    assert staging.take_pieces(store, "some") == pa.table({"bytes": [7]})
    with pytest.raises(ObjectNotFoundError):
        staging.take_pieces(store, "some")
