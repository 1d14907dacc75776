"""`writeStream`: each batch is committed once, whatever fails in between."""

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

import frazil
import frazil.spark
from frazil.engine.refs.version import Branch
from frazil.paths import NodePath
from frazil.zarrstore.arrays import open_array
from tests.spark.writing_cases import make_repository

pytestmark = [pytest.mark.spark, pytest.mark.spark_matrix]

NOON = 1_718_020_800  # of a day of 2024
OPTIONS = {"dims": "t,x", "chunks": '{"t": 2}'}


class Feed:
    """A folder of files, each of which is a batch; and the query that writes them."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.repository = make_repository(folder / "repo")
        (folder / "in").mkdir()
        frazil.spark.register(spark)

    def put(self, number: int, times: Sequence[int], xs: Sequence[float] = (0.0, 0.5)) -> None:
        rows = [{"t": t, "x": x, "v": t + x} for t in times for x in xs]
        schema = pa.schema([("t", pa.int64()), ("x", pa.float64()), ("v", pa.float64())])
        made = self.folder / f"{number}.parquet"
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), made)
        # Spark takes files by age, and two made in one tick of the clock are of one age.
        os.utime(made, (NOON + number, NOON + number))
        made.rename(self.folder / "in" / made.name)

    def run(self, output: str = "append", **options: str) -> None:
        """Until everything is done."""
        stream = (
            self.spark.readStream.schema("t BIGINT, x DOUBLE, v DOUBLE")
            .option("maxFilesPerTrigger", 1)
            .parquet(str(self.folder / "in"))
        )
        if output == "complete":
            stream = stream.groupBy("t", "x").sum("v").toDF("t", "x", "v")
        writer = stream.writeStream.format("icechunk").outputMode(output)
        query = (
            writer.option("path", str(self.folder / "repo"))
            .option("checkpointLocation", str(self.folder / "checkpoint"))
            .options(**{**OPTIONS, **options})
            .queryName("feed")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    def forget_commit(self, batch: int) -> None:
        """As if Spark had died after the sink's commit and before its own note of it."""
        (self.folder / "checkpoint" / "commits" / str(batch)).unlink()
        (self.folder / "checkpoint" / "commits" / f".{batch}.crc").unlink(missing_ok=True)

    def commits(self) -> list[Any]:
        return list(self.repository.ancestry(Branch("main")))[:-1]

    def array(self, name: str) -> Any:
        session = self.repository.readonly_session(Branch("main"))
        path = NodePath(f"/{name}")
        return open_array(session, path)[...]


@pytest.fixture
def feed(spark: SparkSession, tmp_path: Path) -> Feed:
    return Feed(spark, tmp_path)


def test_batches_are_committed_once_even_if_spark_dies_before_it_notes_so(feed: Feed) -> None:
    feed.put(0, [0, 1, 2])
    feed.put(1, [3])
    feed.run()
    assert feed.array("v").tolist() == [[t, t + 0.5] for t in range(4)]
    notes = [record.metadata["frazil"] for record in feed.commits()]
    assert [note["batch"] for note in notes] == [1, 0]
    assert len({note["query"] for note in notes}) == 1
    feed.forget_commit(1)
    feed.put(2, [4, 5])
    feed.run()  # does batch 1 again, then batch 2
    assert feed.array("v").tolist() == [[t, t + 0.5] for t in range(6)]
    assert feed.array("t").tolist() == list(range(6))
    batches = [record.metadata["frazil"]["batch"] for record in feed.commits()]
    assert batches == [2, 1, 0]


def test_batches_are_known_after_their_commits_were_squashed_and_expired(feed: Feed) -> None:
    for number in range(4):
        feed.put(number, [number])
    feed.run()
    public = frazil.Repository.open(frazil.local_filesystem_storage(feed.folder / "repo"))
    oldest = [info.id for info in public.ancestry(branch="main")][-2]
    public.squash(oldest, branch="main", message="all in one")
    feed.forget_commit(3)
    feed.put(4, [4])
    feed.run()  # does batch 3 again, then batch 4
    assert feed.array("t").tolist() == list(range(5))
    assert len(feed.commits()) == 2
    tip = public.lookup_branch("main")
    expired = public.expire_snapshots(datetime.now(UTC))
    assert expired
    assert tip not in expired
    feed.forget_commit(4)
    feed.put(5, [5])
    feed.run()
    assert feed.array("v").tolist() == [[t, t + 0.5] for t in range(6)]
    assert len(feed.commits()) == 2  # batch 5, and the one that stayed


def test_an_empty_batch_commits_nothing_and_bad_rows_stop_the_query(feed: Feed) -> None:
    feed.put(0, [0, 1])
    feed.put(1, [])
    feed.run()
    assert len(feed.commits()) == 1
    feed.put(2, [1])
    with pytest.raises(StreamingQueryException, match="which the array has already"):
        feed.run()
    assert len(feed.commits()) == 1
    feed.run(mode="upsert")
    assert feed.array("t").tolist() == [0, 1]
    assert len(feed.commits()) == 2


def test_a_complete_table_replaces_the_one_before(feed: Feed) -> None:
    feed.put(0, [0, 1])
    feed.put(1, [1, 2])
    feed.run("complete")
    assert feed.array("v").tolist() == [[0, 0.5], [2, 3], [2, 2.5]]
    assert len(feed.commits()) == 2


def test_a_stream_says_what_it_cannot_do_before_the_first_batch(feed: Feed) -> None:
    feed.put(0, [0])
    with pytest.raises(StreamingQueryException, match="would refuse the second batch"):
        feed.run(mode="create")
    with pytest.raises(StreamingQueryException, match="leave out txnAppId"):
        feed.run(txnAppId="a", txnVersion="1")
    assert feed.commits() == []
