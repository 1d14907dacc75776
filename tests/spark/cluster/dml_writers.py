"""Writers that change one table at the same time: threads of a driver, and the icechunk package."""

import time
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from threading import Event

import icechunk
import numpy as np
import zarr
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from frazil.objectstore.keys import LOCK_NAME
from frazil.objectstore.local.local_directories import exclusive
from frazil.spark import register
from tests.spark.dml_history import Done
from tests.spark.dml_oracle import Cells, Statements, Table, create, execute

SIZES = (8, 13)  # of dimensions: with room for writers that do not meet


def make_table(spark: SparkSession, folder: Path, seed: int) -> Table:
    return create(spark, folder, seed, SIZES, dims=(2, 3))[0].table


def write_with_spark(
    spark: SparkSession, table: Table, seed: int, writers: int, count: int
) -> list[list[Done]]:
    """So many statements of each writer, every writer in a thread and session of its own."""
    with ThreadPoolExecutor(writers) as pool:
        started = [
            pool.submit(_write, spark.newSession(), table, np.random.default_rng([seed, k]), count)
            for k in range(writers)
        ]
        return [each.result() for each in started]


def _write(spark: SparkSession, table: Table, rng: np.random.Generator, count: int) -> list[Done]:
    register(spark)
    statements, done = Statements(table, rng), list[Done]()
    for _ in range(count):
        before = table.snapshots()[-1]
        statement = statements.choose(table.sizes_of(table.read(before)))
        error = ""
        try:
            execute(spark, table, statement)
        except PySparkException as raised:
            error = str(raised)
        done.append(Done(before, table.snapshots()[-1], statement, error))
    return done


def write_with_icechunk(table: Table, seed: int, stop: Event, pause_s: float) -> list[Done]:
    """The live package writes through zarr, and rebases where no chunk is in both.

    On local disk its commits are not atomic, as it warns: it gets frazil's lock for them.
    """
    rng, done = np.random.default_rng([seed, 99]), list[Done]()
    repository = icechunk.Repository.open(icechunk.local_filesystem_storage(table.path))
    while not stop.is_set():
        session = repository.writable_session("main")
        base = session.snapshot_id
        changes = _change(table, session, rng)
        time.sleep(pause_s * rng.random())
        made, error = "", ""
        try:
            with exclusive(str(Path(table.path, LOCK_NAME))):
                made = session.commit(
                    f"icechunk {len(done)}", rebase_with=icechunk.ConflictDetector()
                )
        except (icechunk.ConflictError, icechunk.RebaseFailedError) as raised:
            error = f"Rebase failed: {raised}"
        after = repository.lookup_branch("main")
        done.append(Done(base, after, None, error, base, changes, made))
        time.sleep(pause_s * rng.random())
    return done


def _change(table: Table, session: icechunk.Session, rng: np.random.Generator) -> Cells:
    """Adds one to v in a small box, and sets n there; the cells that change."""
    before = table.read(session.snapshot_id)
    along = [list(dict.fromkeys(values)) for values in zip(*before, strict=True)]
    low = [int(rng.integers(len(values))) for values in along]
    box = tuple(slice(a, a + int(rng.integers(1, 3))) for a in low)
    number = int(rng.integers(-9, 10))
    group = zarr.open_group(session.store, mode="r+")
    group["v"][box] = np.asarray(group["v"][box]) + 1  # type: ignore[index]
    group["n"][box] = number  # type: ignore[index]
    inside = product(*(values[part] for values, part in zip(along, box, strict=True)))
    added = {at: before[at][1] for at in inside}
    return {at: (number, None if v is None else v + 1) for at, v in added.items()}
