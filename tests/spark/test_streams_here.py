"""What a stream of commits reads, with every task in one process."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import icechunk
import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

import frazil
from frazil.engine.session.session import Session
from frazil.errors import InvalidInputError, SnapshotNotFoundError
from frazil.paths import NodePath
from frazil.spark.io.chunk_scan import plan_chunk_scan, read_chunk_part
from frazil.spark.table.opened import open_pinned, pin
from frazil.spark.table.options import parse_options
from tests.examples_count import scaled
from tests.spark.repositories import put
from tests.spark.stream_cases import Row, batch_here, by_commit, changes_here, kinds, stream_here

type Change = Callable[[Any], Any]


@pytest.fixture
def repository(path: Path) -> frazil.Repository:
    """Four hours of three places, in one commit."""
    made = frazil.Repository.create(frazil.local_filesystem_storage(path))
    commit(made, fill)
    return made


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "repo"


def fill(group: Any) -> None:
    put(group, "time", np.arange(4), "time", 64, units="hours since 2024-01-01")
    put(group, "x", np.arange(3.0), "x", 3)
    put(group, "t", np.arange(12.0).reshape(4, 3), "time x", (3, 3))


def commit(repository: frazil.Repository, change: Change) -> str:
    with repository.transaction("main", message="changed") as store:
        change(zarr.group(store))
    return repository.lookup_branch("main")


def append(group: Any) -> None:
    group["t"].resize((6, 3))
    group["t"][4:] = 9
    group["time"].resize((6,))
    group["time"][4:] = [4, 5]


def rows_since(path: Path, snapshot: str, **options: str) -> list[Row]:
    return changes_here(path, startingSnapshot=snapshot, **options)


def test_a_commit_gives_its_rows_and_says_which_it_is(
    repository: frazil.Repository, path: Path
) -> None:
    rows = changes_here(path)
    info = next(iter(repository.ancestry(branch="main")))
    assert {row["_commit_version"] for row in rows} == {info.id}
    assert {row["_commit_timestamp"] for row in rows} == {info.written_at}
    assert kinds(rows) == {"insert": 12}
    assert [row["t"] for row in sorted(rows, key=lambda r: (r["time"], r["x"]))] == list(range(12))


def test_to_append_gives_new_rows_and_without_changes_the_whole_chunk(
    repository: frazil.Repository, path: Path
) -> None:
    before = repository.lookup_branch("main")
    commit(repository, append)
    rows = rows_since(path, before)
    # the coordinate's only chunk was written again, too: its old values are no change
    assert {row["time"].hour for row in rows} == {4, 5}
    assert kinds(rows) == {"insert": 6}
    chunk = rows_since(path, before, changes="false")
    assert {row["time"].hour for row in chunk} == {3, 4, 5}
    assert len(chunk) == 9


def test_a_resize_uncovers_what_its_last_chunk_holds(
    repository: frazil.Repository, path: Path
) -> None:
    def resize(size: int) -> str:
        return commit(repository, lambda g: (g["t"].resize((size, 3)), g["time"].resize((size,))))

    shorter = resize(2)
    resize(3)
    rows = rows_since(path, shorter)
    assert [(row["time"].hour, row["t"]) for row in rows] == [(2, 6), (2, 7), (2, 8)]
    assert kinds(rows) == {"insert": 3}


def test_a_value_of_a_coordinate_changes_its_rows(
    repository: frazil.Repository, path: Path
) -> None:
    before = repository.lookup_branch("main")
    commit(repository, lambda group: group["time"].set_basic_selection(1, 100))
    rows = rows_since(path, before)
    new, old = datetime(2024, 1, 5, 4, tzinfo=UTC), datetime(2024, 1, 1, 1, tzinfo=UTC)
    assert {(row["time"], row["_change_type"]) for row in rows} == {
        (new, "insert"),
        (old, "delete"),
    }
    assert sorted(row["t"] for row in rows) == [3, 3, 4, 4, 5, 5]
    after = rows_since(path, before, changes="false")
    assert [(row["time"], row["t"]) for row in after] == [(new, 3), (new, 4), (new, 5)]


def test_every_commit_is_read_at_its_own_snapshot(
    repository: frazil.Repository, path: Path
) -> None:
    before = repository.lookup_branch("main")
    made = [
        commit(repository, lambda group: group["t"].set_basic_selection((0, 0), 7)),
        commit(repository, lambda group: group["t"].set_basic_selection((0, 0), 8)),
    ]
    found = by_commit(rows_since(path, before))
    assert list(found) == made
    assert [[row["t"] for row in found[snapshot]] for snapshot in made] == [[0, 7], [7, 8]]


def test_variables_that_come_later_are_null_before(
    repository: frazil.Repository, path: Path
) -> None:
    late = commit(repository, lambda g: put(g, "u", np.ones((4, 3)), "time x", (2, 2)))
    found = by_commit(changes_here(path))
    first = next(iter(found.values()))
    assert {row["u"] for row in first} == {None}
    assert {(row["u"], row["_change_type"]) for row in found[late]} == {
        (None, "update_preimage"),
        (1.0, "update_postimage"),
    }
    assert len(found[late]) == 24


def test_rows_of_fill_values_are_rows_though_nothing_is_stored(
    repository: frazil.Repository, path: Path
) -> None:
    commit(repository, lambda group: put(group, "dry", np.zeros((4, 3)), "time x", (3, 3)))
    before = commit(repository, lambda group: group["dry"].set_basic_selection((0, 0), 1))
    dry = commit(repository, lambda group: group["dry"].set_basic_selection((0, 0), 0))
    rows = by_commit(changes_here(path, variables="dry"))
    images = {"update_preimage": 1, "update_postimage": 1}
    assert [kinds(each) for each in rows.values()] == [{"insert": 12}, images, images]
    assert [each[-1]["dry"] for each in rows.values()] == [0, 1, 0]
    assert len(rows_since(path, before, changes="false", variables="dry")) == 9
    chunks = rows_since(path, before, mode="chunks", variables="dry")
    assert [(row["_commit_version"], row["_change_type"]) for row in chunks] == [(dry, "delete")]


def test_commits_that_change_no_value_give_nothing(
    repository: frazil.Repository, path: Path
) -> None:
    before = repository.lookup_branch("main")
    commit(repository, lambda g: g["t"].attrs.update(units="K"))
    commit(repository, lambda g: put(g, "other", np.ones(2), "z", 2))
    assert rows_since(path, before, variables="t") == []
    session = repository.rearrange_session("main")
    session.move("/other", "/elsewhere")
    session.commit("moved")
    assert rows_since(path, before, variables="t") == []


def test_a_selection_is_kept_to(repository: frazil.Repository, path: Path) -> None:
    commit(repository, append)
    rows = changes_here(path, sel='{"time": "2024-01-01T04"}', isel='{"x": [0, 2]}')
    assert [(row["time"].hour, row["x"]) for row in rows] == [(4, 0.0), (4, 2.0)]
    chunks = changes_here(path, mode="chunks", variables="t", isel='{"time": 5}')
    assert [row["chunk"] for row in chunks] == [[1, 0]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda g: g["t"].resize((2, 3)), "dimension 'time' of array 't' became shorter"),
        (lambda g: g.__delitem__("t"), "array 't' was deleted or moved away"),
    ],
)
def test_rows_that_are_taken_away_are_deletes_or_an_error_or_ignored(
    repository: frazil.Repository, path: Path, change: Change, message: str
) -> None:
    told, stream = stream_here(path), stream_here(path, changes="false")
    lenient = stream_here(path, changes="false", onRemoval="ignore")
    start = stream.initialOffset()
    snapshot = commit(repository, lambda g: (change(g), g["time"].resize((2,))))
    with pytest.raises(InvalidInputError, match=f"{snapshot}: {message}"):
        batch_here(stream, start, {"snapshot": snapshot})
    assert len(batch_here(lenient, start, {"snapshot": snapshot})) == 12
    deleted = batch_here(told, start, {"snapshot": snapshot})[12:]
    gone = [(row["t"], row["_change_type"]) for row in deleted]
    kept = 6 if "shorter" in message else 0
    assert sorted(gone) == [(float(value), "delete") for value in range(kept, 12)]


def test_another_type_is_an_error(repository: frazil.Repository, path: Path) -> None:
    stream = stream_here(path)
    start = {"snapshot": repository.lookup_branch("main")}

    def replace(group: Any) -> None:
        del group["t"]
        put(group, "t", np.arange(12).reshape(4, 3), "time x", (3, 3))

    snapshot = commit(repository, replace)
    with pytest.raises(InvalidInputError, match="column 't' is bigint, but double in the"):
        batch_here(stream, start, {"snapshot": snapshot})


def test_chunks_that_are_gone_are_told(repository: frazil.Repository, path: Path) -> None:
    before = repository.lookup_branch("main")
    resized = commit(repository, lambda g: g["t"].resize((2, 3)))
    deleted = commit(repository, lambda g: g.__delitem__("x"))
    found = by_commit(rows_since(path, before, mode="chunks"))
    assert [(r["array"], r["chunk"], r["shape"]) for r in found[resized]] == [("t", [1, 0], [1, 3])]
    assert [(r["array"], r["chunk"]) for r in found[deleted]] == [("x", [0])]
    gone = found[resized] + found[deleted]
    assert {(r["_change_type"], r["kind"], r["data"]) for r in gone} == {
        ("delete", "missing", None)
    }


def test_an_array_on_another_grid_is_deleted_and_inserted(
    repository: frazil.Repository, path: Path
) -> None:
    before = repository.lookup_branch("main")

    def replace(group: Any) -> None:
        del group["t"]
        put(group, "t", np.arange(12.0).reshape(4, 3), "time x", (4, 3))

    commit(repository, replace)
    rows = rows_since(path, before, mode="chunks")
    assert kinds(rows) == {"delete": 2, "insert": 1}
    assert rows_since(path, before) == []  # its values are what they were
    assert len(rows_since(path, before, changes="false")) == 12


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tag": "v1"}, "a stream follows a branch"),
        ({"asOf": "2024-01-01"}, "a stream follows a branch"),
        ({"table": "history"}, "is read in batches"),
        ({"mode": "chunks", "includeMissing": "true"}, "means nothing to a stream"),
        ({"sel": '{"z": 3}'}, "`sel` names 'z'"),
        ({"startform": "latest"}, "did you mean 'startFrom'"),
    ],
)
def test_options_that_no_stream_takes(
    repository: frazil.Repository, path: Path, options: dict[str, str], message: str
) -> None:
    repository.create_tag("v1", repository.lookup_branch("main"))
    options = options if "asOf" not in options else {"asOf": datetime.now(UTC).isoformat()}
    with pytest.raises(InvalidInputError, match=message):
        stream_here(path, **options)


def test_a_target_is_not_passed(repository: frazil.Repository, path: Path) -> None:
    stream = stream_here(path, maxCommitsPerTrigger="1")
    stream.prepareForTriggerAvailableNow()
    target = repository.lookup_branch("main")
    commit(repository, append)
    start, limit = stream.initialOffset(), stream.getDefaultReadLimit()
    end = stream.latestOffset(start, limit)
    assert end == {"snapshot": target}
    assert stream.latestOffset(end, limit) == end
    assert stream.reportLatestOffset() == {"snapshot": repository.lookup_branch("main")}


def test_after_the_reference_expired_commits_all_rows_come_with_the_next(tmp_path: Path) -> None:
    theirs = icechunk.Repository.create(icechunk.local_filesystem_storage(str(tmp_path)))

    def change(do: Change) -> str:
        session = theirs.writable_session("main")
        do(zarr.group(session.store))
        return session.commit("changed")

    def values(rows: list[Row]) -> list[float]:
        return [row["t"] for row in sorted(rows, key=lambda row: (row["y"], row["x"]))]

    data = np.zeros((4, 3))
    gone = change(lambda group: put(group, "t", data, "y x", (2, 3)))
    change(lambda group: group["t"].set_basic_selection((0, 0), 5))
    until = datetime.now(UTC)
    last = change(lambda group: group["t"].set_basic_selection((3, 0), 6))
    theirs.expire_snapshots(older_than=until)
    theirs.garbage_collect(until)
    found = by_commit(changes_here(tmp_path))
    assert list(found) == [last]
    data[0, 0], data[3, 0] = 5, 6
    assert values(found[last]) == data.reshape(-1).tolist()
    stream, again = stream_here(tmp_path), stream_here(tmp_path, onRewrite="restart")
    with pytest.raises(SnapshotNotFoundError, match=f"{gone}.*expired"):
        stream.latestOffset({"snapshot": gone}, stream.getDefaultReadLimit())
    end = again.latestOffset({"snapshot": gone}, again.getDefaultReadLimit())
    assert values(batch_here(again, {"snapshot": gone}, end)) == data.reshape(-1).tolist()


# Whoever applies what a stream says has what the repository has

numbers = st.integers(1, 99)
writes = st.tuples(
    st.just("write"), st.sampled_from("ab"), st.integers(0, 7), st.integers(0, 4), numbers
)
steps = st.one_of(
    writes,
    writes,
    st.tuples(st.just("resize"), st.integers(4, 9)),
    st.tuples(st.just("drop"), st.sampled_from("ab"), st.integers(0, 2), st.integers(0, 2)),
    st.tuples(st.just("replace"), st.integers(1, 4), numbers),
    st.just(("attributes",)),
)
commits = st.lists(st.lists(steps, min_size=1, max_size=3), min_size=1, max_size=4)
CHUNKS = {"a": (3, 2), "b": (2, 5)}


def apply(session: frazil.Session, step: tuple[Any, ...]) -> None:
    group: Any = zarr.open_group(session.store)
    match step:
        case ("write", name, row, column, value):
            array = group[name]
            array[min(row, array.shape[0] - 1), column] = value
        case ("resize", size):
            for name in "ab":
                group[name].resize((size, 5))
        case ("drop", name, row, column):
            engine: Session = session.engine
            engine.delete_chunk(NodePath(f"/{name}"), (row, column))
        case ("replace", chunk, value):
            size = group["a"].shape[0]
            create(group, "a", size, (chunk, 2))
            group["a"][0] = value
        case _:
            group.attrs["n"] = group.attrs.get("n", 0) + 1


def create(group: Any, name: str, size: int, chunks: tuple[int, ...]) -> None:
    group.create_array(
        name, shape=(size, 5), chunks=chunks, dtype="f8", fill_value=np.nan, overwrite=True,
        dimension_names=["y", "x"], compressors=None,
    )  # fmt: skip


def history(path: Path, script: list[list[tuple[Any, ...]]]) -> frazil.Repository:
    repository = frazil.Repository.create(frazil.local_filesystem_storage(path))
    with repository.transaction("main", message="arrays") as store:
        for name, chunks in CHUNKS.items():
            create(zarr.group(store), name, 6, chunks)
    for step in script:
        session = repository.writable_session("main")
        for each in step:
            apply(session, each)
        if session.has_uncommitted_changes:
            session.commit("step")
    return repository


@given(commits, st.sampled_from(["1", "200", "100000"]))
@settings(max_examples=scaled(12), deadline=None)
def test_a_mirror_of_rows_is_the_table(script: list[list[tuple[Any, ...]]], size: str) -> None:
    with TemporaryDirectory() as folder:
        repository = history(Path(folder) / "r", script)
        mirror: dict[tuple[int, int], tuple[float | None, float | None]] = {}
        options = {"changes": "false", "partitionBytes": size, "onRemoval": "ignore"}
        stream = stream_here(Path(folder) / "r", **options)
        start = stream.initialOffset()
        for info in reversed(list(repository.ancestry(branch="main"))[:-1]):
            rows = batch_here(stream, start, {"snapshot": info.id})
            start = {"snapshot": info.id}
            store = repository.readonly_session(snapshot_id=info.id).store
            arrays = {name: zarr.open_array(store, path=name, mode="r") for name in "ab"}
            length = arrays["a"].shape[0]
            mirror = {key: row for key, row in mirror.items() if key[0] < length}
            seen = set()
            for row in rows:
                key = row["y"], row["x"]
                assert key not in seen
                seen.add(key)
                mirror[key] = row["a"], row["b"]
            for name, k in (("a", 0), ("b", 1)):
                values = np.full((length, 5), np.nan)
                for key, row_values in mirror.items():
                    stored = row_values[k]
                    values[key] = np.nan if stored is None else stored
                np.testing.assert_array_equal(values, arrays[name][:])


@given(commits)
@settings(max_examples=scaled(8), deadline=None)
def test_a_mirror_of_chunks_has_the_chunks(script: list[list[tuple[Any, ...]]]) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "r"
        history(path, script)
        mirror: set[tuple[str, tuple[int, ...]]] = set()
        for row in changes_here(path, mode="chunks", partitionBytes="300"):
            key = row["array"], tuple(row["chunk"])
            assert (key in mirror) == (row["_change_type"] != "insert")
            if row["_change_type"] == "delete":
                mirror.remove(key)
            else:
                mirror.add(key)
        options = parse_options({"path": str(path), "mode": "chunks"})
        opened = open_pinned(pin(options))
        scan = plan_chunk_scan(opened, options)
        stored = {
            (row["array"], tuple(row["chunk"]))
            for part in scan.parts
            for batch in read_chunk_part(opened, scan, part)
            for row in batch.to_pylist()
        }
        assert mirror == stored
