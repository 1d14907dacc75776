"""What a client of Spark Connect can do; run by test_connect.py, which starts the server.

Prints one line of JSON: what was found.
"""

import json
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from frazil.spark import plan_sql, read, read_chunks, read_table, register, sql
from tests.spark.connect_jobs import OTHERS, SOME


def main(url: str, path: str, folder: str, which: str) -> None:
    warnings.simplefilter("ignore")
    spark = SparkSession.builder.remote(url).getOrCreate()
    found: dict[str, Any] = {"connect": type(spark).__module__}
    if which == "some":
        found |= look(spark, path)
    for job in SOME if which == "some" else OTHERS:
        try:
            found[job.__name__] = job(spark, path, Path(folder) / job.__name__)
        except Exception:  # noqa: BLE001 -- the others are to be tried as well
            found[job.__name__] = traceback.format_exc()
    print(json.dumps(found), flush=True)  # noqa: T201 -- what the test reads
    spark.stop()


def look(spark: SparkSession, path: str) -> dict[str, Any]:
    """Every way to read."""
    found: dict[str, Any] = {}
    unregistered = spark.read.format("icechunk").options(variables="t2m").load(path)
    found["rows"] = unregistered.where("lat >= 50").count()
    register(spark)
    tables = {"w": {"path": path, "variables": ["t2m"]}}
    query = "SELECT count(t2m) AS n FROM w WHERE lat >= 50 AND time < '2024-01-01 12:00:00'"
    found["planned"] = plan_sql(spark, query, tables).chunks_read
    found["sql"] = sql(spark, query, tables).collect()[0].n
    joined = "SELECT count(*) AS n FROM w.t2m VERSION AS OF 'v1' a JOIN w b USING (time, lat, lon)"
    found["version"] = sql(spark, f"{joined} WHERE lat = 90 AND lon = 0", tables).collect()[0].n
    picked = read(spark, path, variables="t2m", isel={"time": 0}, where="lat < 0")
    found["read"] = picked.count()
    found["chunks"] = read_chunks(spark, path, variables="t2m", sel={"lat": 90.0}).count()
    history = read_table(spark, path, "history").orderBy("depth")
    found["history"] = [row.message for row in history.collect()]
    refs = spark.sql(f"SELECT name FROM icechunk_refs('{path}') ORDER BY name")  # noqa: S608 -- our own text
    found["refs"] = [row.name for row in refs.collect()]
    spark.sql(f"CREATE TEMPORARY VIEW v USING icechunk OPTIONS (path '{path}', table 'chunk_refs')")
    found["view"] = spark.sql("SELECT count(*) AS n FROM v WHERE path = '/t2m'").collect()[0].n
    try:
        spark.read.format("icechunk").option("tabel", "refs").load(path).collect()
    except Exception as error:  # noqa: BLE001 -- of Connect's own kind
        found["mistake"] = "did you mean 'table'" in str(error)
    return found


if __name__ == "__main__":
    main(*sys.argv[1:])
