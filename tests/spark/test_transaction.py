"""Several writes, one commit: the same as one commit each, or nothing at all."""

from pathlib import Path
from typing import Any

import icechunk
import numpy as np
import pytest
import zarr
from pyspark.errors import ParseException
from pyspark.sql import DataFrame, SparkSession

import frazil
from frazil.errors import ConflictError, InvalidInputError, SessionStateError
from frazil.spark import Transaction, transaction, write

pytestmark = [pytest.mark.spark, pytest.mark.spark_matrix]


def make_repository(path: Path) -> frazil.Repository:
    return frazil.Repository.create(frazil.local_filesystem_storage(path))


def rows(spark: SparkSession, days: Any, value: float, *, xs: Any = range(4)) -> DataFrame:
    cells = [(int(day), int(x), float(value + 10 * day + x)) for day in days for x in xs]
    return spark.createDataFrame(cells, "day long, x long, t double")


CREATE = {"mode": "create", "dims": ["day", "x"], "chunks": {"day": 2, "x": 3}}


def values(repository: Any, **version: str) -> Any:
    where = version or {"branch": "main"}
    array: Any = zarr.open_array(repository.readonly_session(**where).store, path="t", mode="r")
    return np.asarray(array[:]).tolist()


def messages(repository: frazil.Repository) -> list[str]:
    return [info.message for info in repository.ancestry(branch="main")][::-1][1:]


def test_writes_see_each_other_and_are_one_commit(spark: SparkSession, tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "r")
    start = repository.lookup_branch("main")
    with transaction(spark, repository, message="all of it", metadata={"by": "me"}) as t:
        t.write(rows(spark, range(3), 100), **CREATE)
        t.write(rows(spark, [3, 4], 200), mode="append")
        # in the same chunks as what is pending
        written = t.write(rows(spark, [2], 500, xs=[1]), mode="upsert")
        assert (written.rows, written.committed, written.snapshot_id) == (1, False, start)
        group: Any = zarr.open_group(t.session.store)
        assert group["t"][2].tolist() == [120, 521, 122, 123]
        group["t"][0, 0] = -1
        group.attrs["days"] = 5
        pending = t.read(variables="t").where("day = 2 OR t < 0").orderBy("day", "x")
        assert [row["t"] for row in pending.collect()] == [-1, 120, 521, 122, 123]
        assert repository.lookup_branch("main") == start  # nobody else sees any of it
    assert t.committed
    assert t.snapshot_id == repository.lookup_branch("main")
    assert messages(repository) == ["all of it"]
    info = repository.lookup_snapshot(t.snapshot_id)
    assert info.metadata["by"] == "me"
    assert info.metadata["frazil"]["rows"] == 12 + 8 + 1
    theirs = icechunk.Repository.open(icechunk.local_filesystem_storage(str(tmp_path / "r")))
    expected = [[100 + 10 * d + x for x in range(4)] for d in range(3)]
    expected += [[200 + 10 * d + x for x in range(4)] for d in (3, 4)]
    expected[0][0], expected[2][1] = -1, 521
    assert values(theirs) == expected


def test_random_writes_are_the_same_as_one_commit_each(spark: SparkSession, tmp_path: Path) -> None:
    random = np.random.default_rng(7)
    one, other = (make_repository(tmp_path / name) for name in ("one", "other"))
    days = 3
    write(rows(spark, range(days), 1), one, **CREATE)  # type: ignore[arg-type]  # options by name
    write(rows(spark, range(days), 1), other, **CREATE)  # type: ignore[arg-type]  # likewise
    with transaction(spark, one) as t:
        for step in range(6):
            match random.integers(3):
                case 0:
                    frame, mode = rows(spark, [days], step * 100), "append"
                    days += 1
                case 1:
                    chosen = random.choice(days, 2, replace=False)
                    frame, mode = rows(spark, chosen, step * 100, xs=[1, 3]), "region"
                case _:
                    frame, mode = rows(spark, [days - 1, days], step * 100, xs=[0, 2]), "upsert"
                    days += 1
            t.write(frame, mode=mode)
            write(frame, other, mode=mode)
            if step == 3:
                np.testing.assert_array_equal(values(one, snapshot_id=t.flush()), values(other))
    np.testing.assert_array_equal(values(one), values(other))
    assert len(messages(one)) == 2
    assert len(messages(other)) == 7


def test_an_error_leaves_nothing_behind(spark: SparkSession, tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "r")

    def fail(t: Transaction) -> None:
        t.write(rows(spark, range(2), 1), **CREATE)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), transaction(spark, repository) as t:
        fail(t)
    assert messages(repository) == []
    with pytest.raises(SessionStateError, match="has ended"):
        t.write(rows(spark, range(2), 1), **CREATE)

    # a write that fails is undone; the transaction can go on
    with transaction(spark, repository, message="rest") as t:
        t.write(rows(spark, range(2), 1), **CREATE)
        twice = rows(spark, [7], 1).union(rows(spark, [7], 2))
        with pytest.raises(InvalidInputError, match="two rows"):
            t.write(twice, mode="append")
        t.write(rows(spark, [2], 1), mode="append")
    assert len(values(repository)) == 3
    with transaction(spark, repository, message="nothing") as t:
        pass
    assert not t.committed
    assert messages(repository) == ["rest"]
    with (
        pytest.raises(InvalidInputError, match="'message' is a matter of the transaction"),
        transaction(spark, repository) as t,
    ):
        t.write(rows(spark, [3], 1), mode="append", message="mine")


def test_a_branch_that_moved_is_a_conflict_or_rebased(spark: SparkSession, tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "r")
    write(rows(spark, range(4), 1), repository, **CREATE)  # type: ignore[arg-type]  # options

    def meanwhile(value: float) -> None:
        with repository.transaction("main", message="meanwhile") as store:
            zarr.open_array(store, path="t")[0, 0] = value

    def change(t: Transaction, day: int, value: float) -> None:
        t.write(rows(spark, [day], 50), mode="region")
        meanwhile(value)

    with pytest.raises(ConflictError), transaction(spark, repository) as t:
        change(t, 3, -1)
    assert values(repository)[0][0] == -1
    assert values(repository)[3][0] == 31
    with transaction(spark, tmp_path / "r", rebase=True) as t:
        change(t, 3, -2)
    assert t.committed
    assert values(repository)[0][0] == -2
    assert values(repository)[3] == [80, 81, 82, 83]
    with pytest.raises(ConflictError), transaction(spark, repository, rebase=True) as t:
        change(t, 0, -3)  # the same chunk
    assert values(repository)[0][0] == -3


@pytest.mark.parametrize("statement", ["START TRANSACTION", "BEGIN TRANSACTION", "COMMIT"])
def test_spark_has_no_transactions_of_several_statements(
    spark: SparkSession, statement: str
) -> None:
    """If it has one day, the catalog should take part in them."""
    with pytest.raises(ParseException):
        spark.sql(statement)
