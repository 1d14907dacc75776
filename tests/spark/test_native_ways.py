"""The native table, wherever people run Spark; where it cannot be, the plain source is as right."""

import base64
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import frazil
from frazil.spark import register
from frazil.spark.native.jar import find_jar
from tests.servers.s3 import S3Server
from tests.spark.connect_server import connect_server
from tests.spark.repositories import fill_weather, make_weather, temperature
from tests.spark.ways import (
    PROGRAMS,
    PRUNED,
    QUERY,
    SETTINGS,
    confs,
    look,
    other_spark,
    run,
    thrift_server,
)

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]

SCRIPT = str(Path(__file__).with_name("ways_script.py"))
NORTH = temperature()[:12, :3]  # what QUERY selects
NORTH[0, 0, :3] = np.nan


def right() -> tuple[int, float]:
    return NORTH.size, round(float(np.nanmean(NORTH.astype("f8"))), 6)


NATIVE, PLAIN = [*right(), True], [*right(), False]


@pytest.fixture(scope="module")
def weather(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("ways") / "weather"
    make_weather(path)
    return str(path)


def forms(secret: str) -> set[str]:
    """As it is, and inside of anything that was encoded with base64, wherever it began there."""
    shifted = (base64.b64encode(b"x" * shift + secret.encode()).decode() for shift in range(3))
    return {secret, *(text[4:-4] for text in shifted)}


def answer(told: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(told.splitlines()[-1])
    return found


@pytest.mark.long
@pytest.mark.spark_matrix
def test_a_script_of_spark_submit_adds_the_jar_to_the_session_it_finds(
    weather: str, tmp_path: Path
) -> None:
    command = [f"{PROGRAMS}spark-submit", *confs(SETTINGS), SCRIPT, "submitted", weather]
    found = answer(run(command, tmp_path))
    native = ["registered", "new session", "turned on", "registered in thread", "started again"]
    assert found == {
        **dict.fromkeys(native, NATIVE),
        "unregistered": PLAIN,
        "turned off": PLAIN,
        "thread": list(right()),
        "warnings": [],
    }


@pytest.mark.long
def test_secrets_are_in_no_plan_log_page_or_event(s3_server: S3Server, tmp_path: Path) -> None:
    """What plans, tables and errors show is in test_bucket_options.py, too, in CI."""
    prefix = s3_server.new_prefix()
    repository = frazil.Repository.create(s3_server.storage(frazil, prefix))
    with repository.transaction("main", message="weather") as store:
        fill_weather(zarr.group(store))
    options = {
        "storage.region": s3_server.region,
        "storage.endpointUrl": s3_server.endpoint,
        "storage.allowHttp": "true",
        "storage.forcePathStyle": "true",
        "storage.accessKeyId": s3_server.access_key,
        "storage.secretAccessKey": s3_server.secret_key,
    }
    (tmp_path / "options.json").write_text(json.dumps(options))
    events = tmp_path / "events"
    events.mkdir()
    told_to = {
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.log.level": "INFO",
    }
    place = f"s3://{s3_server.bucket}/{prefix}"
    catalog = {
        "spark.sql.catalog.hidden": "frazil.spark.Catalog",
        "spark.sql.catalog.hidden.repository": place,
        **{f"spark.sql.catalog.hidden.{name}": text for name, text in options.items()},
    }
    settings = confs({**SETTINGS, **told_to, **catalog})
    command = [f"{PROGRAMS}spark-submit", *settings, SCRIPT, "secrets"]
    found = answer(run([*command, place, str(tmp_path)], tmp_path / "driver"))
    ways = dict.fromkeys(("read", "view", "catalog", "sql"), NATIVE)
    assert "was set after Spark had started" in found.pop("late")
    assert found == {**ways, "texts": found["texts"], "warnings": []}

    texts = {"told": (tmp_path / "texts.json").read_text()}
    for path in [tmp_path / "driver" / "log", *events.rglob("*")]:
        texts |= {path.name: path.read_text(errors="replace")} if path.is_file() else {}
    assert place in texts["told"]
    assert any("SQLExecutionStart" in text and PRUNED in text for text in texts.values())
    for secret in forms(s3_server.secret_key):
        assert not [name for name, text in texts.items() if secret in text]


@pytest.mark.long
@pytest.mark.spark_matrix
def test_spark_sql_has_table_and_catalog_without_a_python_driver(
    weather: str, tmp_path: Path
) -> None:
    (tmp_path / "statements.sql").write_text(statements(weather))
    command = [f"{PROGRAMS}spark-sql", *confs({**SETTINGS, **settings_for(weather)})]
    told = run([*command, "-f", str(tmp_path / "statements.sql")], tmp_path)
    row = "{}\t{}".format(*right())
    assert told.splitlines().count(row) == 2
    assert told.count(PRUNED) == 2


def statements(path: str) -> str:
    """Queries of a view and of a table of the catalog."""
    view = f"CREATE TEMPORARY VIEW w USING icechunk OPTIONS (path '{path}');\n"
    queries = [QUERY.format(table) for table in ("w", "frazil.weather")]
    return view + "".join(f"{query};\nEXPLAIN {query};\n" for query in queries)


def settings_for(path: str) -> dict[str, str]:
    """What `frazil spark conf` prints, and where the repositories are."""
    return {
        "spark.jars": str(find_jar(os.environ)),
        "spark.sql.catalog.frazil": "frazil.spark.Catalog",
        "spark.sql.catalog.frazil.warehouse": str(Path(path).parent),
    }


@pytest.mark.long
@pytest.mark.spark_matrix
def test_the_thrift_server_has_table_and_catalog(weather: str, tmp_path: Path) -> None:
    with thrift_server({**SETTINGS, **settings_for(weather)}, tmp_path / "server") as url:
        (tmp_path / "statements.sql").write_text(statements(weather))
        beeline = [f"{PROGRAMS}beeline", "--outputformat=tsv2", "-u", url]
        told = run([*beeline, "-f", str(tmp_path / "statements.sql")], tmp_path / "client")
    assert told.splitlines().count("{}\t{}".format(*right())) == 2
    assert told.count(PRUNED) == 2


CONNECT = [sys.executable, "-m", "tests.spark.ways_script"]
QUICK = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}


@pytest.mark.long
@pytest.mark.spark_matrix
def test_a_connect_server_gets_the_jar_from_each_session_that_registers(
    weather: str, tmp_path: Path
) -> None:
    pytest.importorskip("grpc", reason="Spark Connect needs the extra `connect`")
    newer = other_spark(tmp_path / "newer", "9.9.9")
    with connect_server("local[2]", tmp_path / "server", QUICK) as url:
        found = answer(run([*CONNECT, "connect", weather, url], tmp_path / "client"))
        command = [*CONNECT, "registered", weather, url]
        refused = answer(run(command, tmp_path / "other", SPARK_HOME=str(newer)))
    native, plain = ["registered", "first again"], ["unregistered", "another"]
    assert found == {**dict.fromkeys(native, NATIVE), **dict.fromkeys(plain, PLAIN), "warnings": []}
    (warning,) = refused.pop("warnings")
    assert "here is 9.9.9; start the server with the jar" in warning
    assert refused == {"registered": PLAIN}


@pytest.mark.long
@pytest.mark.spark_matrix
def test_a_connect_server_that_has_the_jar_is_native_for_all(weather: str, tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="Spark Connect needs the extra `connect`")
    settings = {**QUICK, "spark.jars": str(find_jar(os.environ))}
    with connect_server("local[2]", tmp_path / "server", settings) as url:
        found = answer(run([*CONNECT, "connect", weather, url], tmp_path / "client"))
    ways = ["registered", "first again", "unregistered", "another"]
    assert found == {**dict.fromkeys(ways, NATIVE), "warnings": []}


@pytest.mark.long
@pytest.mark.spark_matrix
def test_a_session_that_starts_its_own_connect_server_is_native(
    weather: str, tmp_path: Path
) -> None:
    pytest.importorskip("grpc", reason="Spark Connect needs the extra `connect`")
    found = answer(run([*CONNECT, "registered", weather, "local[2]"], tmp_path))
    assert found == {"registered": NATIVE, "warnings": []}


def test_without_a_jar_there_is_one_warning_and_the_same_answer(
    spark: SparkSession, weather: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The classes are there already, so that the setting has to pass over them."""
    other = spark.newSession()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    try:
        with pytest.warns(UserWarning, match="has no Spark, or only a client of it"):
            register(other)
        register(other)  # another warning would be an error
        other.conf.set("spark.frazil.native", "false")
        assert list(look(other, weather)) == PLAIN
        other.conf.unset("spark.frazil.native")
        assert list(look(other, weather)) == NATIVE
    finally:
        monkeypatch.undo()
        register(spark)  # the active session again


def test_a_jar_of_another_frazil_is_told(spark: SparkSession, weather: str) -> None:
    stale = spark.read.format("icechunk").option("frazilJava", "0123456789abcdef")
    with pytest.raises(PySparkException, match="`frazil spark jar` makes the one that fits"):
        stale.load(weather)
