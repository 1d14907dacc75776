"""Change data through Spark: CHANGES in SQL, a table function, a batch and a stream."""

# ruff: noqa: S608 -- names are what is tested

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import zarr
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import frazil
from frazil.spark import read_changes, read_stream, register
from tests.spark.change_cases import (
    Change,
    changes_of,
    difference,
    make_history,
    rows_at,
)
from tests.spark.stream_cases import by_commit
from tests.spark.test_native_catalog import set_catalog
from tests.spark.ways import plan_of

pytestmark = [pytest.mark.spark, pytest.mark.spark_matrix]

SEED = 3


class History:
    """A table with five commits, and what each did according to a comparison in Python."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "table"
        self.made = make_history(self.path, SEED, 5)
        self.repository = frazil.Repository.open(frazil.local_filesystem_storage(self.path))
        group = zarr.open_group(self.repository.readonly_session("main").store, mode="r")
        self.names = [name for name in ("a", "b", "n") if name in group]

    def net(self, first: int, last: int, names: Sequence[str]) -> list[Change]:
        old, new = (rows_at(self.path, self.made[number], names) for number in (first, last))
        return difference(old, new)

    def require(self, found: DataFrame, first: int, last: int) -> None:
        """Checks the commits after one up to another, each for itself."""
        names = [name for name in self.names if name in found.columns]
        commits = by_commit(found.toArrow().to_pylist())
        numbers = range(first, last + 1)
        assert commits.keys() <= {self.made[number] for number in numbers[1:]}
        for before, after in pairwise(numbers):
            rows = commits.get(self.made[after], [])
            assert changes_of(rows, names) == self.net(before, after, names)

    def require_net(self, found: DataFrame, first: int, last: int) -> None:
        names = [name for name in self.names if name in found.columns]
        rows = found.toArrow().to_pylist()
        assert changes_of(rows, names) == self.net(first, last, names)


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    return History(tmp_path_factory.mktemp("changes"))


@pytest.fixture(scope="module")
def catalog(spark: SparkSession, history: History) -> Iterator[str]:
    register(spark)
    set_catalog(spark, "changed", warehouse=history.path.parent)
    yield "changed.table"
    spark.conf.unset("spark.sql.catalog.changed.warehouse")


def has_changes(spark: SparkSession) -> bool:
    """Whether this Spark has CHANGES: since 4.2."""
    return tuple(map(int, spark.version.split(".")[:2])) >= (4, 2)


def test_a_batch_and_a_function_give_what_both_versions_differ_in(
    spark: SparkSession, history: History
) -> None:
    register(spark)
    made = history.made
    found = read_changes(spark, history.repository, from_version=made[0])
    history.require(found, 0, 5)
    assert found.where("_change_type = 'insert'").count() > 0
    for net, require in ((False, history.require), (True, history.require_net)):
        some = read_changes(spark, history.path, from_version=made[1], to_version=made[4], net=net)
        require(some, 1, 4)
    call = f"icechunk_changes('{history.path}', '{made[1]}', to_version => '{made[4]}'{{}})"
    history.require(spark.sql(f"SELECT * FROM {call.format('')}"), 1, 4)
    history.require_net(spark.sql(f"SELECT * FROM {call.format(', net => true')}"), 1, 4)
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW all_changes USING icechunk"
        f" OPTIONS (path '{history.path}', changes 'true', `from` '{made[0]}')"
    )
    history.require(spark.table("all_changes"), 0, 5)
    with pytest.raises(PySparkException, match="no argument 'until'"):
        spark.sql(f"SELECT * FROM icechunk_changes('{history.path}', until => 'v1')")


def test_a_stream_gives_the_same_once(
    spark: SparkSession, history: History, tmp_path: Path
) -> None:
    frame = read_stream(spark, history.repository, starting_snapshot=history.made[0])
    found: list[Any] = []
    for _run in range(2):
        query = (
            frame.writeStream.foreachBatch(lambda batch, _: found.append(batch.toArrow()))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    rows = [row for batch in found for row in batch.to_pylist()]
    commits = by_commit(rows)
    for before, after in pairwise(range(6)):
        told = changes_of(commits.get(history.made[after], []), history.names)
        assert told == history.net(before, after, history.names)


def test_changes_of_sql(spark: SparkSession, history: History, catalog: str) -> None:
    made = history.made
    if not has_changes(spark):
        with pytest.raises(PySparkException, match="PARSE_SYNTAX_ERROR"):
            spark.sql(f"SELECT * FROM {catalog} CHANGES FROM VERSION '{made[1]}'")
        return

    def changes(text: str) -> DataFrame:
        return spark.sql(f"SELECT * FROM {catalog} CHANGES {text}")

    for first in range(6):
        for last in range(first, 6):
            ends = f"FROM VERSION '{made[first]}' EXCLUSIVE TO VERSION '{made[last]}'"
            net = changes(f"{ends} WITH (deduplicationMode = 'netChanges')")
            history.require_net(net, first, last)
    history.require(changes(f"FROM VERSION '{made[1]}'"), 0, 5)  # what it did itself is included
    history.require(changes(f"FROM VERSION '{made[1]}' EXCLUSIVE TO VERSION 'main'"), 1, 5)
    history.require(changes(f"FROM VERSION '{made[2]}' TO VERSION '{made[3]}' EXCLUSIVE"), 1, 2)
    updates = changes(f"FROM VERSION '{made[1]}' WITH (computeUpdates = 'true')")
    history.require(updates, 0, 5)
    begin, end = (
        history.repository.lookup_snapshot(made[number]).written_at.astimezone(UTC)
        for number in (2, 4)
    )
    times = f"FROM TIMESTAMP '{begin:%F %T.%f}' TO TIMESTAMP '{end:%F %T.%f}'"
    history.require(changes(times), 1, 4)
    later = datetime.now(UTC) + timedelta(hours=1)
    assert changes(f"FROM TIMESTAMP '{later:%F %T}'").count() == 0
    reader = spark.read.option("startingVersion", made[1]).option("endingVersion", made[3])
    history.require(reader.changes(catalog), 0, 3)
    assert changes(f"FROM VERSION '{made[1]}'").columns == [
        "y", "x", *history.names, "_change_type", "_commit_version", "_commit_timestamp",
    ]  # fmt: skip


def holds(row: dict[str, Any], condition: str) -> bool:
    """The condition in Python, which is the same text but for a few words."""
    text = condition.replace(" = ", " == ").replace("AND", "and").replace("OR", "or")
    return bool(eval(text.replace(" IN ", " in "), dict(row)))  # noqa: S307 -- of this file


def test_conditions_on_coordinates_leave_chunks_unread(
    spark: SparkSession, history: History, catalog: str
) -> None:
    if not has_changes(spark):
        return  # see test_changes_of_sql
    query = f"SELECT * FROM {catalog} CHANGES FROM VERSION '{history.made[1]}'"
    whole = spark.sql(query).toArrow().to_pylist()
    for condition in (
        "x > 10 AND x <= 20",
        "y IN (0, 10) AND a = 1",
        "x = 0 AND _change_type = 'insert'",
        "x = 10.5",
        "y < 20 OR x = 0",
    ):
        found = spark.sql(f"{query} WHERE {condition}")
        expected = [row for row in whole if holds(row, condition)]
        assert sorted(found.toArrow().to_pylist(), key=repr) == sorted(expected, key=repr)
        assert ("pruned by: []" in plan_of(found)) == ("OR" in condition)
    counted = spark.sql(f"SELECT count(*), max(_commit_version) FROM ({query})").collect()
    assert counted[0][0] == len(whole)
    one = spark.sql(query.replace("*", history.names[0])).toArrow().to_pylist()
    assert len(one) == len(whole)  # a row that changed elsewhere is a change, too


def test_a_stream_of_changes_of_a_table(
    spark: SparkSession, history: History, catalog: str, tmp_path: Path
) -> None:
    if not has_changes(spark):
        return  # see test_changes_of_sql
    reader = spark.readStream.option("startingVersion", history.made[1])
    query = (
        reader.changes(catalog)
        .writeStream.format("memory")
        .queryName("streamed_changes")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    history.require(spark.table("streamed_changes"), 0, 5)
    net = reader.option("deduplicationMode", "netChanges").changes(catalog)
    with pytest.raises(PySparkException, match="net changes are those between two versions"):
        net.writeStream.format("noop").trigger(availableNow=True).start().awaitTermination()


def test_changes_that_cannot_be_told(spark: SparkSession, history: History, catalog: str) -> None:
    if not has_changes(spark):
        return  # see test_changes_of_sql
    made = history.made
    for name, text, message in (
        (catalog, "FROM VERSION 'v9'", "no branch, tag or snapshot 'v9'"),
        (catalog, f"FROM VERSION '{made[3]}' TO VERSION '{made[2]}'", "is not in the history of"),
        (f"{catalog}.history", f"FROM VERSION '{made[3]}'", "has no changes"),
        ("changed.nothing", f"FROM VERSION '{made[3]}'", "TABLE_OR_VIEW_NOT_FOUND"),
    ):
        with pytest.raises(PySparkException, match=message):
            spark.sql(f"SELECT * FROM {name} CHANGES {text}").collect()
