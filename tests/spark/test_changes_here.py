"""Change data, with every task in one process: random commits, compared version by version."""

import pickle
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import frazil
from frazil.errors import InvalidInputError, RefNotFoundError, SnapshotNotFoundError
from frazil.spark.io.data_source import IcechunkSource
from tests.examples_count import scaled
from tests.spark.change_cases import (
    changes_of,
    difference,
    make_history,
    make_repository,
    mutate,
    rows_at,
)
from tests.spark.stream_cases import batch_here, by_commit, changes_here, stream_here


def batch_of(path: Path, **options: str) -> list[dict[str, Any]]:
    """Rows of a batch of changes."""
    source = IcechunkSource({"path": str(path), "changes": "true", **options})
    reader: Any = pickle.loads(pickle.dumps(source)).reader(source.schema())
    parts = pickle.loads(pickle.dumps(reader.partitions()))
    copied = pickle.loads(pickle.dumps(reader))
    return [row for part in parts for batch in copied.read(part) for row in batch.to_pylist()]


def variables_of(path: Path, snapshot: str) -> list[str]:
    repository = frazil.Repository.open(frazil.local_filesystem_storage(path))
    group: Any = zarr.open_group(repository.readonly_session(snapshot_id=snapshot).store, mode="r")
    return [name for name in ("a", "b", "n") if name in group]


@pytest.mark.parametrize("seed", range(scaled(3)))
def test_changes_are_the_difference_of_both_versions(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "r"
    made = make_history(path, seed, 6)
    names = variables_of(path, made[-1])
    tables = [rows_at(path, each, names) for each in made]
    size = {"partitionBytes": ("1", "300", "100000")[seed % 3]}
    for first, last in combinations(range(len(made)), 2):
        ends = {"from": made[first], "to": made[last]}
        net = batch_of(path, net="true", **ends, **size)
        there = variables_of(path, made[last])
        old, new = (rows_at(path, made[k], there) for k in (first, last))
        assert changes_of(net, there) == difference(old, new)
        assert {row["_commit_version"] for row in net} <= {made[last]}
    found = by_commit(batch_of(path, **{"from": made[0]}, **size))
    for before, after in pairwise(range(len(made))):
        expected = difference(tables[before], tables[after])
        assert changes_of(found.get(made[after], []), names) == expected
    assert changes_here(path, **size) == batch_of(path, **size)  # a stream gives the same

    y, x = tables[-1] and min(tables[-1])[0] + 1, 2
    selected = {"sel": f'{{"y": {{"ge": {y}}}}}', "isel": f'{{"x": [{x}]}}'}
    found = by_commit(batch_of(path, **{"from": made[0]}, **selected))
    for before, after in pairwise(range(len(made))):
        old, new = (
            {k: v for k, v in tables[n].items() if k[0] >= y and k[1] == x * 10}
            for n in (before, after)
        )
        assert changes_of(found.get(made[after], []), names) == difference(old, new)


def test_only_chunks_that_the_log_names_are_read(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "r")
    with repository.transaction("main", message="all") as store:
        zarr.open_group(store)["a"][:] = 1  # type: ignore[index]  # an array
    before = repository.lookup_branch("main")
    with repository.transaction("main", message="one cell") as store:
        zarr.open_group(store)["a"][4, 3] = 2  # type: ignore[index]  # an array
    ends = {"from": before, "partitionBytes": "1", "variables": "a"}
    source = IcechunkSource({"path": str(tmp_path / "r"), "changes": "true", **ends})
    schema: Any = source.schema()
    reader: Any = source.reader(schema)
    (part,) = reader.partitions()
    (box,) = part.value.part.boxes
    assert [span.new.positions for span in box] == [range(4, 5), range(2, 4)]
    rows = batch_of(tmp_path / "r", **ends)
    assert [(r["_change_type"], r["a"]) for r in rows] == [
        ("update_preimage", 1.0),
        ("update_postimage", 2.0),
    ]


def test_conditions_that_spark_pushed_down_prune(tmp_path: Path) -> None:
    made = make_history(tmp_path / "r", 2, 3)
    whole = batch_of(tmp_path / "r", **{"from": made[0]})
    ends = {"from": made[0], "partitionBytes": "1"}
    for prune, keeps in (
        ('[{"x": {"ge": 10}}, {"x": {"lt": 30}}]', lambda row: 10 <= row["x"] < 30),
        ('[{"y": {"in": [0, 5]}}]', lambda row: row["y"] in {0, 5}),
        ('[{"x": {"in": ["no number"]}}]', lambda _: True),
        ('[{"x": {"in": [{}]}}]', lambda _: True),
    ):
        options = {"path": str(tmp_path / "r"), "changes": "true", "frazilPrune": prune, **ends}
        source = IcechunkSource(options)
        schema: Any = IcechunkSource({k: v for k, v in options.items() if "Prune" not in k})
        reader: Any = source.reader(schema.schema())
        found = [
            row
            for part in reader.partitions()
            for batch in reader.read(part)
            for row in batch.to_pylist()
        ]
        expected = [row for row in whole if keeps(row)]
        assert sorted(found, key=repr) == sorted(expected, key=repr)


def test_values_that_spark_holds_for_equal_are_no_change(tmp_path: Path) -> None:
    repository = frazil.Repository.create(frazil.local_filesystem_storage(tmp_path / "r"))

    def write(values: Any) -> None:
        with repository.transaction("main", message="w") as store:
            group: Any = zarr.open_group(store, mode="a")
            if "v" not in group:
                group.create_array("v", shape=(3,), chunks=(3,), dtype="f8", dimension_names=["x"])
            group["v"][:] = values

    write([0.0, 1.0, np.nan])
    before = repository.lookup_branch("main")
    write([-0.0, 1.0, np.nan])
    ends = {"from": before, "decodeCf": "false"}
    assert batch_of(tmp_path / "r", **ends) == []
    write([-0.0, 2.0, np.nan])
    found = batch_of(tmp_path / "r", **ends)
    assert [(row["x"], row["v"]) for row in found] == [(1, 1.0), (1, 2.0)]


def test_what_is_wrong_is_told(tmp_path: Path) -> None:
    path = tmp_path / "r"
    made = make_history(path, 1, 2)
    with pytest.raises(InvalidInputError, match=r"is no ancestor of"):
        batch_of(path, **{"from": made[2], "to": made[1]})
    with pytest.raises(InvalidInputError, match=r"is no ancestor of"):
        batch_of(path, **{"from": made[2], "to": made[1], "net": "true"})
    with pytest.raises(RefNotFoundError, match=r"no tag, branch or snapshot 'v9'"):
        batch_of(path, **{"from": "v9"})
    with pytest.raises(InvalidInputError, match=r"'net' is 'some'"):
        batch_of(path, net="some")
    with pytest.raises(InvalidInputError, match=r"is of streams"):
        batch_of(path, startFrom="latest", net="true")
    with pytest.raises(InvalidInputError, match=r"changes are of rows"):
        batch_of(path, mode="chunks", net="true")


def apply(rows: dict[Any, Any], changes: list[dict[str, Any]], names: list[str]) -> None:
    """Applies change data; each must fit what is there."""
    for row in changes:
        key, values = (row["y"], row["x"]), tuple(row[name] for name in names)
        match row["_change_type"]:
            case "insert":
                assert key not in rows
                rows[key] = values
            case "delete":
                assert rows.pop(key) == values
            case "update_preimage":
                assert rows[key] == values
            case "update_postimage":
                rows[key] = values


@pytest.mark.parametrize("seed", range(scaled(4)))
def test_a_mirror_stays_right_when_history_is_rewritten(tmp_path: Path, seed: int) -> None:
    """Squashed, reset, amended: the stream goes on with what differs."""
    path = tmp_path / "r"
    made = make_history(path, seed + 100, 4)
    repository = frazil.Repository.open(frazil.local_filesystem_storage(path))
    names = ["a", "b"]
    random = np.random.default_rng(seed)

    def follow(start: dict[str, str]) -> dict[str, str]:
        options = {"onRewrite": "compare", "variables": "a,b", "maxCommitsPerTrigger": "2"}
        stream = stream_here(path, **options)
        while (end := stream.latestOffset(start, stream.getDefaultReadLimit())) != start:
            apply(mirror, batch_here(stream, start, end), names)
            start = end
        tip = repository.lookup_branch("main")
        assert start == {"snapshot": tip}
        assert mirror == rows_at(path, tip, names)
        return start

    mirror: dict[Any, Any] = rows_at(path, made[2], names)
    # read up to the middle of what is squashed
    repository.squash(made[1], made[3], branch="main", message="squashed")
    start = follow({"snapshot": made[2]})
    for _step in range(3):
        session = repository.writable_session("main")
        mutate(session, random)
        session.commit("more", allow_empty=True)
        start = follow(start)
    history = [info.id for info in repository.ancestry(branch="main")]
    repository.squash(history[2], branch="main", message="all of it was read")
    start = follow(start)
    repository.reset_branch("main", history[4])
    start = follow(start)
    session = repository.writable_session("main")
    mutate(session, random)
    session.amend("amended", allow_empty=True)
    follow(start)


def test_a_rewritten_history_is_told_otherwise(tmp_path: Path) -> None:
    path = tmp_path / "r"
    made = make_history(path, 5, 3)
    repository = frazil.Repository.open(frazil.local_filesystem_storage(path))
    repository.squash(made[1], made[3], branch="main", message="squashed")
    stream = stream_here(path)
    with pytest.raises(InvalidInputError, match=r"squashed\. With the option onRewrite=compare"):
        stream.latestOffset({"snapshot": made[2]}, stream.getDefaultReadLimit())
    with pytest.raises(InvalidInputError, match=r"onRewrite=compare is of streams of changed rows"):
        stream_here(path, changes="false", onRewrite="compare")


def test_a_stream_whose_snapshot_was_expired_says_so(tmp_path: Path) -> None:
    path = tmp_path / "r"
    made = make_history(path, 5, 3)
    repository = frazil.Repository.open(frazil.local_filesystem_storage(path))
    assert repository.expire_snapshots(None, snapshot_ids=[made[1]]) == {made[1]}
    for policy in ("fail", "compare"):
        stream = stream_here(path, onRewrite=policy)
        with pytest.raises(SnapshotNotFoundError, match="it was expired"):
            stream.latestOffset({"snapshot": made[1]}, stream.getDefaultReadLimit())
    # one that has read up to a snapshot that stays goes on, also over expired ones
    rest = rows_at(path, made[0], ["a", "b"])
    stream = stream_here(path, variables="a,b")
    start = {"snapshot": made[0]}
    end = stream.latestOffset(start, stream.getDefaultReadLimit())
    apply(rest, batch_here(stream, start, end), ["a", "b"])
    assert rest == rows_at(path, made[3], ["a", "b"])
