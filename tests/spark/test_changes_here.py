"""Change data, with every task in one process: random commits, compared version by version."""

import pickle
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import frazil
from frazil.errors import InvalidInputError, RefNotFoundError
from frazil.spark.io.data_source import IcechunkSource
from tests.examples_count import scaled
from tests.spark.change_cases import (
    changes_of,
    difference,
    make_history,
    make_repository,
    rows_at,
)
from tests.spark.stream_cases import by_commit, changes_here


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
