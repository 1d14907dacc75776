"""What a session finds that somebody else has started; run by test_native_ways.py.

    spark-submit ways_script.py submitted REPOSITORY
    spark-submit ways_script.py secrets LOCATION FOLDER      the options are in FOLDER/options.json
    python -m tests.spark.ways_script connect|registered REPOSITORY URL

Prints one line of JSON.
"""

import json
import sys
import urllib.request
import warnings
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

from pyspark.sql import SparkSession

from frazil.spark import register, sql
from tests.spark.ways import QUERY, look, look_at, plan_of


def submitted(path: str) -> dict[str, Any]:
    spark = SparkSession.builder.getOrCreate()
    found: dict[str, Any] = {"unregistered": look(spark, path)}
    register(spark)
    register(spark)
    found["registered"] = look(spark, path)
    found["new session"] = look(spark.newSession(), path)
    spark.conf.set("spark.frazil.native", "false")
    found["turned off"] = look(spark, path)
    spark.conf.unset("spark.frazil.native")
    found["turned on"] = look(spark, path)

    def in_thread() -> None:
        found["thread"] = look(spark, path)[:2]  # Spark's class loaders are of threads
        register(spark)
        found["registered in thread"] = look(spark, path)

    thread = Thread(target=in_thread)
    thread.start()
    thread.join()
    spark.stop()
    again = SparkSession.builder.getOrCreate()
    register(again)
    found["started again"] = look(again, path)
    again.stop()
    return found


def secrets(location: str, folder: str) -> dict[str, Any]:
    """Writes to the folder all that Spark tells of reads with options that are secret."""
    options = json.loads((Path(folder) / "options.json").read_text())
    spark = SparkSession.builder.getOrCreate()
    register(spark)
    found: dict[str, Any] = {"read": look(spark, location, **options)}
    rows = spark.read.format("icechunk").options(**options).load(location)
    given = ", ".join(f"'{name}' '{text}'" for name, text in options.items())
    made = spark.sql(f"CREATE TEMPORARY VIEW w USING icechunk OPTIONS (path '{location}', {given})")
    view = spark.sql(QUERY.format("w"))
    found["view"] = look_at(view)
    table = spark.sql(QUERY.format("hidden.`/`"))
    found["catalog"] = look_at(table)
    tables = {"n": {"path": location, "storage": storage(options)}}
    named = sql(spark, QUERY.format("n"), tables)
    found["sql"] = look_at(named)
    # runs at once, unlike a query
    sql(spark, "CREATE TABLE copied USING parquet AS SELECT lat, lon FROM n WHERE t2m > 0", tables)
    frames = (rows, view, table, named)
    texts = [repr(rows), repr(view), *(plan_of(each, extended=True) for each in (*frames, made))]
    for plan in (each._jdf.queryExecution() for each in frames):
        texts += [plan.toString(), plan.optimizedPlan().prettyJson(), plan.logical().toJSON()]
    texts += [str(spark.sql(statement).collect()) for statement in DESCRIBED]
    for most in ("1000000", "0"):  # rows that become chunks on the driver
        spark.conf.set("spark.frazil.write.driverRows", most)
        spark.sql("UPDATE hidden.`/` SET pressure = pressure + 1 WHERE lat > 80")
        part = rows.where("lat > 80").selectExpr("time", "lat", "lon", "pressure", "t2m")
        part.write.format("icechunk").mode("append").options(**options, mode="region").save(
            location
        )
    spark.conf.set("spark.sql.catalog.shown", "frazil.spark.Catalog")
    spark.conf.set("spark.sql.catalog.shown.storage.secretAccessKey", "too late")
    try:
        spark.sql("SHOW TABLES IN shown")
    except Exception as error:  # noqa: BLE001 -- what it tells is looked at
        found["late"] = str(error)
    spark.conf.unset("spark.sql.catalog.shown.storage.secretAccessKey")
    for wrong in ({"group": "nothing"}, {"tabel": "refs"}, {"sel": "{"}):
        try:
            spark.read.format("icechunk").options(**options, **wrong).load(location).collect()
        except Exception as error:  # noqa: BLE001 -- what it tells is looked at
            texts.append(f"{error!r} {error}")
    texts += [*pages(spark)]
    (Path(folder) / "texts.json").write_text(json.dumps(texts))
    found["texts"] = len(texts)
    spark.stop()
    return found


def storage(options: dict[str, str]) -> dict[str, str]:
    return {name.removeprefix("storage."): text for name, text in options.items()}


DESCRIBED = (
    "DESCRIBE EXTENDED w",
    "SHOW VIEWS",
    "DESCRIBE EXTENDED hidden.`/`",
    "SHOW TBLPROPERTIES hidden.`/`",
    "SHOW CREATE TABLE hidden.`/`",
    *(f"EXPLAIN FORMATTED {QUERY.format(name)}" for name in ("w", "hidden.`/`")),
)
PAGES = ("jobs", "stages?details=true", "environment", "sql?details=true&planDescription=true")


def pages(spark: SparkSession) -> list[str]:
    """What the pages of the application tell."""
    context = spark.sparkContext
    assert context.uiWebUrl is not None
    place = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}"
    places = [f"{place}/{page}" for page in PAGES]
    places += [f"{context.uiWebUrl}/SQL/execution/?id={i}" for i in range(8)]
    places += [f"{context.uiWebUrl}/environment/"]
    told = []
    for each in places:
        with urllib.request.urlopen(each, timeout=60) as answer:  # noqa: S310 -- of our own driver
            told.append(answer.read().decode())
    return told


def connect(path: str, url: str) -> dict[str, Any]:
    first = SparkSession.builder.remote(url).create()
    found: dict[str, Any] = {"unregistered": look(first, path)}
    register(first)
    register(first)
    found["registered"] = look(first, path)
    second = SparkSession.builder.remote(url).create()
    found["another"] = look(second, path)
    found["first again"] = look(first, path)
    for each in (second, first):
        each.stop()
    return found


def registered(path: str, url: str) -> dict[str, Any]:
    builder = SparkSession.builder.remote(url)
    if not url.startswith("sc://"):  # a server of its own
        builder = builder.config("spark.connect.grpc.binding.address", "127.0.0.1")
    spark = builder.getOrCreate()
    register(spark)
    register(spark)
    found = {"registered": look(spark, path)}
    spark.stop()
    return found


WAYS: dict[str, Callable[..., dict[str, Any]]] = {
    each.__name__: each for each in (submitted, secrets, connect, registered)
}


def main(way: str, *arguments: str) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = WAYS[way](*arguments)
    found["warnings"] = [str(each.message) for each in caught if "frazil" in str(each.message)]
    print(json.dumps(found), flush=True)  # noqa: T201 -- what the test reads


if __name__ == "__main__":
    main(*sys.argv[1:])
