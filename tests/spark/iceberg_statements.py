"""Statements that Iceberg's documentation of Spark teaches, run against repositories.

The catalogs have the names that Iceberg's pages use, and the repository is `db.table`, with a
branch `audit-branch` and a tag `historical-snapshot`: half of the statements run letter by letter.
In the others names of tables had to change, and ids, which are texts in Icechunk. Where more had to
change, or the statement is Spark's rather than Iceberg's, it says so, and is not counted.

    python -m tests.spark.iceberg_statements session results.json

runs them in one way of connecting, with the PySpark that is installed; scripts/spark_statements.py
makes docs/spark-statements.md of such results.
"""

# ruff: noqa: E501 -- statements are as long as they are on the pages

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyspark
import zarr
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

import frazil
from frazil.spark import register, session
from frazil.spark.native.jar import find_jar
from frazil.spark.native.procedures import PROCEDURES
from frazil.spark.runtime.java import find_java
from tests.spark.repositories import put

CATALOGS = ("prod", "local", "catalog_name", "hive_prod")  # as on Iceberg's pages
SIZE = 4
WAYS = ("session", "configuration", "connect", "spark-sql")


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement of Iceberg's pages; `here`, if it is written differently here.

    `shows` names the rows that must come, or counts them; None for any. `close` says what differs
    where more than names had to change: such a statement does not count as one of Iceberg's.
    `reason` says why a statement cannot work: then it must fail. The page `spark` is Spark's own
    documentation: Iceberg's pages take those statements for granted.
    """

    page: str
    text: str
    here: str = ""
    shows: str | int | None = None
    close: str = ""
    reason: str = ""

    @property
    def sql(self) -> str:
        return self.here or self.text


TABLE = "SELECT * FROM prod.db.table"
STATEMENTS = [
    # queries
    Statement("queries", TABLE, shows="main"),
    Statement("queries", f"{TABLE}.files", f"{TABLE}.chunk_refs", 3),
    Statement("queries", f"{TABLE} TIMESTAMP AS OF '1986-10-26 01:21:00'", f"{TABLE} TIMESTAMP AS OF '{{time}}'", "tag"),
    Statement("queries", f"{TABLE} VERSION AS OF 10963874102873", f"{TABLE} VERSION AS OF '{{snapshot}}'", "tag"),
    Statement("queries", f"{TABLE} VERSION AS OF 'audit-branch'", shows="branch"),
    Statement("queries", f"{TABLE} VERSION AS OF 'historical-snapshot'", shows="tag"),
    Statement("queries", f"{TABLE} FOR SYSTEM_TIME AS OF '1986-10-26 01:21:00'", f"{TABLE} FOR SYSTEM_TIME AS OF '{{time}}'", "tag"),
    Statement("queries", f"{TABLE} FOR SYSTEM_VERSION AS OF 10963874102873", f"{TABLE} FOR SYSTEM_VERSION AS OF '{{snapshot}}'", "tag"),
    Statement("queries", f"{TABLE} FOR SYSTEM_VERSION AS OF 'audit-branch'", shows="branch"),
    Statement("queries", f"{TABLE} FOR SYSTEM_VERSION AS OF 'historical-snapshot'", shows="tag"),
    Statement("queries", f"{TABLE} TIMESTAMP AS OF 499162860", f"{TABLE} TIMESTAMP AS OF {{seconds}}", "tag"),
    Statement("queries", f"{TABLE} FOR SYSTEM_TIME AS OF 499162860", f"{TABLE} FOR SYSTEM_TIME AS OF {{seconds}}", "tag"),
    Statement("queries", f"{TABLE}.`branch_audit-branch`", shows="branch"),
    Statement("queries", f"{TABLE}.`tag_historical-snapshot`", shows="tag"),
    # metadata tables
    Statement("queries", f"{TABLE}.history", shows=3),
    Statement("queries", "SELECT * from prod.db.table.metadata_log_entries", "SELECT * from prod.db.table.ops_log"),
    Statement("queries", f"{TABLE}.snapshots", shows=4),
    Statement(
        "queries",
        "select h.made_current_at, s.operation, h.snapshot_id, h.is_current_ancestor, s.summary['spark.app.id'] from prod.db.table.history h join prod.db.table.snapshots s on h.snapshot_id = s.snapshot_id order by made_current_at",
        "select h.written_at, s.message, h.snapshot_id, h.depth, get_json_object(s.metadata, '$.app') from prod.db.table.history h join prod.db.table.snapshots s on h.snapshot_id = s.snapshot_id order by h.written_at",
        3,
        close="metadata is JSON, not a map",
    ),
    Statement("queries", f"{TABLE}.entries", f"{TABLE}.chunk_refs", 3),
    Statement("queries", f"{TABLE}.data_files", f"{TABLE}.chunk_refs", 3),
    Statement("queries", f"{TABLE}.manifests"),
    Statement("queries", f"{TABLE}.partitions", f"{TABLE}.storage", 2),
    Statement("queries", "SELECT * from prod.db.table.position_deletes", reason="Icechunk has no delete files: a chunk is replaced"),
    Statement("queries", f"{TABLE}.all_data_files", f"{TABLE}.`branch_audit-branch`.chunk_refs", 3, close="of one branch; there is no table across all snapshots"),
    Statement("queries", f"{TABLE}.all_delete_files", reason="Icechunk has no delete files: a chunk is replaced"),
    Statement("queries", f"{TABLE}.all_manifests", f"{TABLE}.`branch_audit-branch`.manifests", close="of one branch; there is no table across all snapshots"),
    Statement("queries", f"{TABLE}.refs", shows=3),
    Statement("queries", f"{TABLE}.manifests TIMESTAMP AS OF '2021-09-20 08:00:00'", f"{TABLE}.manifests TIMESTAMP AS OF '{{time}}'"),
    Statement("queries", f"{TABLE}.partitions VERSION AS OF 10963874102873", f"{TABLE}.storage VERSION AS OF '{{snapshot}}'", 2),
    # getting started, configuration
    Statement("getting-started", "SELECT count(1) as count, data FROM local.db.table GROUP BY data", shows=1),
    Statement("getting-started", "SELECT * FROM local.db.table.snapshots", shows=4),
    Statement("getting-started", "INSERT INTO local.db.table VALUES (1, 'a'), (2, 'b'), (3, 'c')", reason="the catalog is read-only in this release"),
    Statement("configuration", "SELECT * FROM hive_prod.db.table", shows="main"),
    Statement("configuration", "USE hive_prod.db", shows=0),
    Statement("configuration", "SELECT * FROM table", shows="main"),
    Statement("configuration", "SHOW CURRENT NAMESPACE", shows=1),
    Statement("spark", "SHOW NAMESPACES IN prod", shows=1),
    Statement("spark", "SHOW TABLES IN prod.db", shows=1),
    Statement("spark", "DESCRIBE TABLE prod.db.table"),
    Statement("spark", "DESCRIBE TABLE EXTENDED prod.db.table"),
    Statement("spark", "DESCRIBE NAMESPACE EXTENDED prod.db"),
    Statement("spark", "SHOW CREATE TABLE prod.db.table", shows=1),
    Statement("spark", "SHOW TBLPROPERTIES prod.db.table"),
    Statement("spark", "SHOW COLUMNS IN prod.db.table", shows=2),
    # procedures
    Statement("procedures", "CALL spark_catalog.system.ancestors_of('db.tbl')", "CALL catalog_name.system.ancestors_of('db.table')", 3),
    Statement("procedures", "CALL spark_catalog.system.ancestors_of('db.tbl', 1)", "CALL catalog_name.system.ancestors_of('db.table', '{snapshot}')", 2),
    Statement("procedures", "CALL spark_catalog.system.ancestors_of(snapshot_id => 1, table => 'db.tbl')", "CALL catalog_name.system.ancestors_of(snapshot_id => '{snapshot}', table => 'db.table')", 2),
    Statement("procedures", "CALL catalog_name.system.remove_orphan_files(table => 'db.sample', dry_run => true)", "CALL catalog_name.system.remove_orphan_files(table => 'db.table', dry_run => true)", 0),
    Statement(
        "procedures",
        "CALL hive_prod.system.expire_snapshots('db.sample', TIMESTAMP '2021-06-30 00:00:00.000', 100)",
        "CALL hive_prod.system.expire_snapshots('db.table', TIMESTAMP '2021-06-30 00:00:00.000', 100)",
        0,
    ),
    Statement(
        "procedures",
        "CALL hive_prod.system.expire_snapshots(table => 'db.sample', snapshot_ids => ARRAY(123))",
        "CALL hive_prod.system.expire_snapshots(table => 'db.table', snapshot_ids => ARRAY('{snapshot}'))",
        0,  # a tag has it
    ),
    Statement(
        "procedures",
        "CALL spark_catalog.system.create_changelog_view(table => 'db.tbl', options => map('start-snapshot-id','1','end-snapshot-id', '2'))",
        "CALL catalog_name.system.diff(table => 'db.table', from_version => '{snapshot}', to_version => 'main')",
        2,
        close="changed nodes and chunks, not rows",
    ),
    Statement("spark", "SHOW PROCEDURES IN catalog_name.system", shows=len(PROCEDURES)),
    # what changes something, when all of the others have been run
    Statement("procedures", "CALL catalog_name.system.rollback_to_snapshot('db.sample', 1)", "CALL catalog_name.system.rollback_to_snapshot('db.table', '{snapshot}')", 1),
    Statement("procedures", "CALL catalog_name.system.rollback_to_timestamp('db.sample', TIMESTAMP '2021-06-30 00:00:00.000')", "CALL catalog_name.system.rollback_to_timestamp('db.table', TIMESTAMP '{time}')", 1),
    Statement("procedures", "CALL catalog_name.system.set_current_snapshot('db.sample', 1)", "CALL catalog_name.system.set_current_snapshot('db.table', '{snapshot}')", 1),
    Statement("procedures", "CALL catalog_name.system.set_current_snapshot(table => 'db.sample', ref => 's1')", "CALL catalog_name.system.set_current_snapshot(table => 'db.table', ref => 'historical-snapshot')", 1),
    Statement("procedures", "CALL catalog_name.system.cherrypick_snapshot('my_table', 1)", "CALL catalog_name.system.cherrypick_snapshot('db.table', '{picked}')", 1),
    Statement("procedures", "CALL catalog_name.system.cherrypick_snapshot(snapshot_id => 1, table => 'my_table' )", "CALL catalog_name.system.cherrypick_snapshot(snapshot_id => '{picked}', table => 'db.table.`branch_audit-branch`' )", reason="both wrote the same chunks, which is a conflict"),
    Statement("procedures", "CALL catalog_name.system.rollback_to_snapshot(table => 'db.sample', snapshot_id => 1)", "CALL catalog_name.system.rollback_to_snapshot(table => 'db.table', snapshot_id => '{snapshot}')", 1),
    Statement("procedures", "CALL catalog_name.system.fast_forward('my_table', 'main', 'audit-branch')", "CALL catalog_name.system.fast_forward('db.table', 'main', 'audit-branch')", 1),
    Statement("procedures", "CALL catalog_name.system.rewrite_manifests('db.sample')", "CALL catalog_name.system.rewrite_manifests('db.table')", 1),
    Statement("procedures", "CALL catalog_name.system.rewrite_data_files('db.sample')", "CALL catalog_name.system.pack('db.table')", 1, close="combines small chunks; frazil.spark.rechunk makes other ones"),
    Statement("procedures", "CALL catalog_name.system.remove_orphan_files(table => 'db.sample', location => 'tablelocation/data')", "CALL catalog_name.system.remove_orphan_files(table => 'db.table')", 0, close="of the whole repository"),
    Statement("ddl", "CREATE TABLE prod.db.sample (id bigint NOT NULL COMMENT 'unique id', data string) USING iceberg", "CREATE TABLE prod.db.sample (id bigint NOT NULL COMMENT 'unique id', data string) USING icechunk PARTITIONED BY (id)", 0, close="which columns are dimensions must be said"),
    Statement("ddl", "CREATE TABLE prod.db.sample (id bigint, data string, category string) USING iceberg PARTITIONED BY (category)", "CREATE TABLE prod.db.sample2 (id bigint, data string, category string) USING icechunk PARTITIONED BY (category)", 0),
    Statement("ddl", "CREATE TABLE prod.db.sample (id bigint, data string, category string, ts timestamp) USING iceberg PARTITIONED BY (bucket(16, id), days(ts), category)", "CREATE TABLE prod.db.sample3 (id bigint, data string, category string, ts timestamp) USING icechunk PARTITIONED BY (bucket(16, id), days(ts), category)", reason="dimensions are columns; the property chunks divides them"),
    Statement("getting-started", "CREATE TABLE local.db.table2 (id bigint, data string) USING iceberg", "CREATE TABLE local.db.table2 (id bigint, data string) USING icechunk PARTITIONED BY (id)", 0, close="which columns are dimensions must be said"),
    Statement("ddl", "ALTER TABLE prod.db.sample SET TBLPROPERTIES ('read.split.target-size'='268435456')", shows=0),
    Statement("ddl", "ALTER TABLE prod.db.sample UNSET TBLPROPERTIES ('read.split.target-size')", shows=0),
    Statement("ddl", "ALTER TABLE prod.db.sample SET TBLPROPERTIES ('comment' = 'A table comment.')", shows=0),
    Statement("ddl", "ALTER TABLE prod.db.sample ADD COLUMNS (new_column string comment 'new_column docs')", shows=0),
    Statement("ddl", "ALTER TABLE prod.db.sample ADD COLUMN point struct<x: double, y: double>", reason="a Zarr array holds no structs"),
    Statement("ddl", "ALTER TABLE prod.db.sample ADD COLUMN new_column bigint AFTER other_column", "ALTER TABLE prod.db.sample ADD COLUMN new_column2 bigint AFTER data", reason="arrays of a group have no order"),
    Statement("ddl", "ALTER TABLE prod.db.sample RENAME COLUMN data TO payload", shows=0),
    Statement("ddl", "ALTER TABLE prod.db.sample ALTER COLUMN measurement TYPE double", "ALTER TABLE prod.db.sample ALTER COLUMN id TYPE decimal(20, 0)", reason="the type of an array stays"),
    Statement("ddl", "ALTER TABLE prod.db.sample ALTER COLUMN measurement COMMENT 'unit is kilobytes per second'", "ALTER TABLE prod.db.sample ALTER COLUMN payload COMMENT 'unit is kilobytes per second'", 0),
    Statement("ddl", "ALTER TABLE prod.db.sample ALTER COLUMN col FIRST", "ALTER TABLE prod.db.sample ALTER COLUMN payload FIRST", reason="arrays of a group have no order"),
    Statement("ddl", "ALTER TABLE prod.db.sample DROP COLUMN id", "ALTER TABLE prod.db.sample DROP COLUMN new_column", 0),
    Statement("ddl", "ALTER TABLE prod.db.sample RENAME TO prod.db.new_name", reason="a repository has the name of its folder; groups and arrays are renamed"),
    Statement("ddl", "ALTER TABLE prod.db.sample ADD PARTITION FIELD catalog", reason="chunks of an array stay; frazil.spark.rechunk makes other ones"),
    Statement("ddl", "ALTER TABLE prod.db.sample CREATE BRANCH `audit-branch`", "CALL prod.system.create_branch('db.sample', 'audit-branch')", 1, close="a procedure: Spark's grammar has no branches"),
    Statement("ddl", "ALTER TABLE prod.db.sample CREATE TAG `historical-tag`", "CALL prod.system.create_tag('db.sample', 'historical-tag')", 1, close="a procedure: Spark's grammar has no tags"),
    Statement("ddl", "ALTER TABLE prod.db.sample REPLACE BRANCH `audit-branch` AS OF VERSION 4567", "CALL prod.system.reset_branch('db.sample', 'audit-branch', 'historical-tag')", 1, close="a procedure: Spark's grammar has no branches"),
    Statement("ddl", "ALTER TABLE prod.db.sample DROP BRANCH `audit-branch`", "CALL prod.system.delete_branch('db.sample', 'audit-branch')", 1, close="a procedure: Spark's grammar has no branches"),
    Statement("ddl", "ALTER TABLE prod.db.sample DROP TAG `historical-tag`", "CALL prod.system.delete_tag('db.sample', 'historical-tag')", 1, close="a procedure: Spark's grammar has no tags"),
    # writes
    Statement("ddl", "CREATE TABLE prod.db.sample USING iceberg AS SELECT ...", "CREATE TABLE prod.db.logs USING icechunk PARTITIONED BY (id) AS SELECT id, string(id) AS data, timestamp_seconds(1588291200 + id * 86400) AS ts FROM range(40)", 0, close="PARTITIONED BY names the dimensions"),
    Statement("ddl", "CREATE TABLE prod.db.sample USING iceberg PARTITIONED BY (part) TBLPROPERTIES ('key'='value') AS SELECT ...", """CREATE TABLE prod.db.target USING icechunk PARTITIONED BY (id) TBLPROPERTIES ('chunks'='{"id": 8}') AS SELECT id, id % 3 AS count, '' AS op FROM range(8)""", 0),
    Statement("ddl", "REPLACE TABLE prod.db.sample USING iceberg AS SELECT ...", "REPLACE TABLE prod.db.target USING icechunk PARTITIONED BY (id) AS SELECT id, id % 3 AS count, '' AS op FROM range(8)", 0, close="PARTITIONED BY names the dimensions"),
    Statement("ddl", "REPLACE TABLE prod.db.sample USING iceberg PARTITIONED BY (part) TBLPROPERTIES ('key'='value') AS SELECT ...", """REPLACE TABLE prod.db.target USING icechunk PARTITIONED BY (id) TBLPROPERTIES ('fill'='{"op": "?"}') AS SELECT id, nullif(id % 3, 2) AS count, '' AS op FROM range(8)""", 0),
    Statement("ddl", "CREATE OR REPLACE TABLE prod.db.sample USING iceberg AS SELECT ...", "CREATE OR REPLACE TABLE prod.db.good_events USING icechunk PARTITIONED BY (id) AS SELECT id, id + 2 AS session_time FROM range(4)", 0, close="PARTITIONED BY names the dimensions"),
    Statement("writes", "INSERT INTO prod.db.table VALUES (1, 'a'), (2, 'b')", "INSERT INTO prod.db.table VALUES (11, 'a'), (12, 'b')", 0, close="values that are there are never overwritten"),
    Statement("writes", "INSERT INTO prod.db.table SELECT ...", "INSERT INTO prod.db.table SELECT id + 20, 'c' FROM range(3)", 0),
    Statement("writes", "MERGE INTO prod.db.target t USING (SELECT ...) s ON t.id = s.id WHEN MATCHED AND s.op = 'delete' THEN DELETE WHEN MATCHED AND t.count IS NULL AND s.op = 'increment' THEN UPDATE SET t.count = 0 WHEN MATCHED AND s.op = 'increment' THEN UPDATE SET t.count = t.count + 1", "MERGE INTO prod.db.target t USING (SELECT id, if(id = 1, 'delete', 'increment') AS op FROM range(4)) s ON t.id = s.id WHEN MATCHED AND s.op = 'delete' THEN DELETE WHEN MATCHED AND t.count IS NULL AND s.op = 'increment' THEN UPDATE SET t.count = 0 WHEN MATCHED AND s.op = 'increment' THEN UPDATE SET t.count = t.count + 1", 0),
    Statement("writes", "MERGE INTO prod.db.target t USING (SELECT ...) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *", "MERGE INTO prod.db.target t USING (SELECT id, id AS count, 'new' AS op FROM range(6, 12)) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *", 0),
    Statement("writes", "MERGE INTO prod.db.target t USING (SELECT ...) s ON t.id = s.id WHEN NOT MATCHED AND s.event_time > still_valid_threshold THEN INSERT (id, count) VALUES (s.id, 1)", "MERGE INTO prod.db.target t USING (SELECT id, id AS event_time FROM range(10, 15)) s ON t.id = s.id WHEN NOT MATCHED AND s.event_time > 11 THEN INSERT (id, count) VALUES (s.id, 1)", 0),
    Statement("writes", "MERGE INTO prod.db.target t USING (SELECT ...) s ON t.id = s.id WHEN NOT MATCHED BY SOURCE THEN UPDATE SET status = 'invalid'", "MERGE INTO prod.db.target t USING (SELECT id FROM range(3)) s ON t.id = s.id WHEN NOT MATCHED BY SOURCE THEN UPDATE SET op = 'invalid'", 0),
    Statement("writes", "INSERT OVERWRITE prod.my_app.logs SELECT uuid, first(level), first(ts), first(message) FROM prod.my_app.logs WHERE cast(ts as date) = '2020-07-01' GROUP BY uuid", "INSERT OVERWRITE prod.db.logs SELECT id, first(data), first(ts) FROM prod.db.logs WHERE cast(ts as date) < '2020-06-05' GROUP BY id", 0),
    Statement("writes", "DELETE FROM prod.db.table WHERE ts >= '2020-05-01 00:00:00' and ts < '2020-06-01 00:00:00'", "DELETE FROM prod.db.logs WHERE ts >= '2020-05-01 00:00:00' and ts < '2020-06-01 00:00:00'", 0),
    Statement("writes", "DELETE FROM prod.db.all_events WHERE session_time < (SELECT min(session_time) FROM prod.db.good_events)", "DELETE FROM prod.db.target WHERE count < (SELECT min(session_time) FROM prod.db.good_events)", 0),
    Statement("writes", "DELETE FROM prod.db.orders AS t1 WHERE EXISTS (SELECT oid FROM prod.db.returned_orders WHERE t1.oid = oid)", "DELETE FROM prod.db.target AS t1 WHERE EXISTS (SELECT id FROM prod.db.good_events WHERE t1.id = id)", 0),
    Statement("writes", "UPDATE prod.db.table SET c1 = 'update_c1', c2 = 'update_c2' WHERE ts >= '2020-05-01 00:00:00' and ts < '2020-06-01 00:00:00'", "UPDATE prod.db.logs SET data = 'update_c1' WHERE ts >= '2020-06-01 00:00:00' and ts < '2020-07-01 00:00:00'", 0),
    Statement("writes", "UPDATE prod.db.all_events SET session_time = 0, ignored = true WHERE session_time < (SELECT min(session_time) FROM prod.db.good_events)", "UPDATE prod.db.target SET count = 0, op = 'ignored' WHERE count < (SELECT min(session_time) FROM prod.db.good_events)", 0),
    Statement("writes", "UPDATE prod.db.orders AS t1 SET order_status = 'returned' WHERE EXISTS (SELECT oid FROM prod.db.returned_orders WHERE t1.oid = oid)", "UPDATE prod.db.target AS t1 SET op = 'returned' WHERE EXISTS (SELECT id FROM prod.db.good_events WHERE t1.id = id)", 0),
    Statement("writes", "INSERT INTO prod.db.table.branch_audit VALUES (1, 'a'), (2, 'b')", "INSERT INTO prod.db.table.`branch_audit-branch` VALUES (31, 'a'), (32, 'b')", 0, close="values that are there are never overwritten"),
    Statement("writes", "MERGE INTO prod.db.table.branch_audit t USING (SELECT ...) s ON t.id = s.id WHEN ...", "MERGE INTO prod.db.table.`branch_audit-branch` t USING (SELECT 31L AS id, 'z' AS data) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET data = s.data", 0),
    Statement("writes", "UPDATE prod.db.table.branch_audit AS t1 SET val = 'c'", "UPDATE prod.db.table.`branch_audit-branch` AS t1 SET data = 'c'", 0),
    Statement("writes", "DELETE FROM prod.dbl.table.branch_audit WHERE id = 2", "DELETE FROM prod.db.table.`branch_audit-branch` WHERE id = 2", 0),
    Statement("writes", "INSERT OVERWRITE prod.my_app.logs PARTITION (level = 'INFO') SELECT uuid, first(level), first(ts), first(message) FROM prod.my_app.logs WHERE level = 'INFO' GROUP BY uuid", "INSERT OVERWRITE prod.db.logs PARTITION (data = 'a') SELECT id, ts FROM prod.db.logs", reason="tables have no partitions; DELETE and INSERT, or MERGE"),
    Statement("spark", "SELECT count(*) FROM prod.db.logs WHERE data IS NOT NULL", shows=1),
    Statement("spark", "DROP TABLE prod.db.logs", shows=0),
    Statement("ddl", "DROP TABLE prod.db.sample PURGE", reason="older snapshots keep the table; frazil.Repository.purge_path"),
    Statement("ddl", "DROP TABLE prod.db.sample", shows=0),
    Statement("spark", "CREATE NAMESPACE prod.db.made COMMENT 'a repository'", shows=0),
    Statement("spark", "DROP NAMESPACE prod.db.made", shows=0),
]  # fmt: skip
WORKING = [each for each in STATEMENTS if not each.reason]
# Of these, the statements of Iceberg's own pages with nothing but names changed.
TAUGHT = [each for each in WORKING if each.page != "spark" and not each.close]


@dataclass(frozen=True, slots=True)
class Facts:
    """What the repository is known to hold."""

    warehouse: str
    words: Mapping[str, str]  # that statements have in braces

    def sql(self, statement: Statement) -> str:
        return re.sub(r"\{(\w+)\}", lambda found: self.words[found[1]], statement.sql)

    @property
    def settings(self) -> dict[str, str]:
        return {
            f"spark.sql.catalog.{name}{key}": value
            for name in CATALOGS
            for key, value in (("", "frazil.spark.Catalog"), (".warehouse", self.warehouse))
        }


def make_table(warehouse: Path) -> Facts:
    """The repository `db.table`: column `data` is all "tag" in the first commit, and so on."""
    storage = frazil.local_filesystem_storage(warehouse / "db" / "table")
    repository = frazil.Repository.create(storage)
    with repository.transaction("main", message="first", metadata={"app": "tests"}) as store:
        group = zarr.group(store)
        put(group, "id", np.arange(SIZE), "id", SIZE, long_name="identifier")
        put(group, "data", np.full(SIZE, "tag", "U6"), "id", 2)
    first = repository.lookup_branch("main")
    repository.create_tag("historical-snapshot", first)
    repository.create_branch("audit-branch", first)
    time.sleep(1.1)  # times in whole seconds
    now = datetime.now(UTC)
    time.sleep(1.1)
    for branch, text in (("audit-branch", "branch"), ("main", "main")):
        with repository.transaction(branch, message=text, metadata={"app": "tests"}) as store:
            zarr.open_array(store, path="data")[:2] = text
            zarr.open_array(store, path="data")[2:] = text
    words = {"snapshot": first, "time": f"{now:%Y-%m-%d %H:%M:%S}"}
    words["seconds"] = str(int(now.timestamp()))
    words["picked"] = repository.lookup_branch("main")
    return Facts(str(warehouse), words)


def problem_of(statement: Statement, rows: list[Row]) -> str:
    """Why the rows are not those that the statement shows; empty if they are."""
    match statement.shows:
        case str(text):
            found = sorted((row["id"], row["data"]) for row in rows)
            return "" if found == [(i, text) for i in range(SIZE)] else f"got {found}"
        case int(count):
            return "" if len(rows) == count else f"got {len(rows)} rows, not {count}"
        case None:
            return "" if rows or statement.page == "procedures" else "got no rows"


def run(spark: SparkSession, facts: Facts, statement: Statement) -> str:
    """Runs a statement; the problem, empty if there is none."""
    try:
        rows = spark.sql(facts.sql(statement)).collect()
    except PySparkException as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0][:300]}"
    return problem_of(statement, rows)


def run_all(spark: SparkSession, facts: Facts) -> dict[str, str]:
    return {each.sql: run(spark, facts, each) for each in STATEMENTS}


# Ways of connecting


def _session(facts: Facts) -> SparkSession:
    return session(master="local[2]", short_lived=True, config=facts.settings)


def _configuration(facts: Facts) -> SparkSession:
    """Only settings, as `spark-submit --jars ... --conf ...` would give them."""
    _prepare()
    builder = SparkSession.builder.master("local[2]").config(
        "spark.jars", str(find_jar(os.environ))
    )
    return _with(builder, facts).getOrCreate()


def _connect(facts: Facts) -> SparkSession:
    """A server of its own that gets the jar as an artifact of the client."""
    _prepare()
    builder = SparkSession.builder.remote("local[2]")
    spark = builder.config("spark.connect.grpc.binding.address", "127.0.0.1").getOrCreate()
    register(spark, warehouse=facts.warehouse)
    for key, value in facts.settings.items():
        spark.conf.set(key, value)
    return spark


def _prepare() -> None:
    """What spark-env.sh would set: the Java, and the Python that has frazil."""
    os.environ["JAVA_HOME"] = str(find_java(os.environ).home)
    os.environ["PYSPARK_PYTHON"] = sys.executable


def _with(builder: SparkSession.Builder, facts: Facts) -> SparkSession.Builder:
    quiet = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1"}
    quiet |= {"spark.sql.session.timeZone": "UTC", "spark.driver.bindAddress": "127.0.0.1"}
    for key, value in {**quiet, **facts.settings}.items():
        builder = builder.config(key, value)
    return builder


def _run_spark_sql(facts: Facts) -> dict[str, str]:
    """The shell spark-sql, without a Python driver: all statements that work, in one file.

    It ends at the first error, so a mark is printed only if all statements before it ran; which
    rows they gave is not looked at.
    """
    home = Path(pyspark.__file__).parent
    environment = {**os.environ, "JAVA_HOME": str(find_java(os.environ).home)}
    environment |= {"PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(home)}
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "statements.sql"
        marked = [f"SELECT 'statement {i} done';" for i in range(len(WORKING))]
        lines = [f"{facts.sql(s)};\n{mark}" for s, mark in zip(WORKING, marked, strict=True)]
        file.write_text("\n".join(lines))
        settings = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1"}
        settings |= {"spark.sql.session.timeZone": "UTC", "spark.sql.warehouse.dir": folder}
        settings |= facts.settings
        command = [str(home / "bin" / "spark-sql"), "--master", "local[2]", "--jars"]
        command += [str(find_jar(os.environ)), "-f", str(file)]
        for key, value in settings.items():
            command += ["--conf", f"{key}={value}"]
        done = subprocess.run(
            command, env=environment, cwd=folder, capture_output=True, text=True, check=False
        )
    for i, statement in enumerate(WORKING):
        found = f"statement {i} done" in done.stdout
        results[statement.sql] = "" if found else done.stderr.strip().splitlines()[-1][:300]
    refused = {s.sql: "not run" for s in STATEMENTS if s.reason}
    return {**results, **refused}


_STARTS: Mapping[str, Callable[[Facts], SparkSession]] = {
    "session": _session,
    "configuration": _configuration,
    "connect": _connect,
}


def main(way: str, out: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        facts = make_table(Path(folder))
        if way == "spark-sql":
            results = _run_spark_sql(facts)
        else:
            spark = _STARTS[way](facts)
            results = run_all(spark, facts)
            spark.stop()
    told = {"way": way, "version": pyspark.__version__, "results": results}
    Path(out).write_text(json.dumps(told, indent=1))
    failed = {s.sql: results[s.sql] for s in WORKING if results[s.sql]}
    odd = [s.text for s in STATEMENTS if s.reason and not results[s.sql]]
    done = f"{way}, PySpark {pyspark.__version__}: {len(WORKING) - len(failed)} of {len(WORKING)}"
    sys.stdout.write(f"{done}\n{json.dumps(failed, indent=1)} {odd}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
