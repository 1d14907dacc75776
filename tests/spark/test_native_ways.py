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

import frazil
from frazil.spark.native.jar import find_jar
from tests.servers.s3 import S3Server
from tests.spark.connect_server import connect_server
from tests.spark.repositories import fill_weather, make_weather, temperature
from tests.spark.ways import PROGRAMS, PRUNED, QUERY, SETTINGS, confs, other_spark, run

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]

SCRIPT = Path(__file__).with_name("ways_script.py")
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
    command = [PROGRAMS / "spark-submit", *confs(SETTINGS), SCRIPT, "submitted", weather]
    found = answer(run(command, tmp_path))
    native = ["registered", "new session", "turned on", "registered in thread", "started again"]
    assert found == {
        **dict.fromkeys(native, NATIVE),
        "unregistered": PLAIN,
        "turned off": PLAIN,
        "thread": list(right()),
        "warnings": [],
    }


def test_secrets_are_in_no_plan_log_page_or_event(s3_server: S3Server, tmp_path: Path) -> None:
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
    command = [PROGRAMS / "spark-submit", *confs({**SETTINGS, **told_to}), SCRIPT, "secrets"]
    place = f"s3://{s3_server.bucket}/{prefix}"
    found = answer(run([*command, place, str(tmp_path)], tmp_path / "driver"))
    assert found == {"read": NATIVE, "view": NATIVE, "texts": found["texts"], "warnings": []}

    texts = {"told": (tmp_path / "texts.json").read_text()}
    for path in [tmp_path / "driver" / "log", *events.rglob("*")]:
        texts |= {path.name: path.read_text(errors="replace")} if path.is_file() else {}
    assert place in texts["told"]
    assert any("SQLExecutionStart" in text and PRUNED in text for text in texts.values())
    for secret in forms(s3_server.secret_key):
        assert not [name for name, text in texts.items() if secret in text]


@pytest.mark.spark_matrix
def test_spark_sql_has_the_native_table_without_a_python_driver(
    weather: str, tmp_path: Path
) -> None:
    view = f"CREATE TEMPORARY VIEW w USING icechunk OPTIONS (path '{weather}')"
    query = QUERY.format("w")
    (tmp_path / "statements.sql").write_text(f"{view};\n{query};\nEXPLAIN {query};\n")
    settings = {**SETTINGS, "spark.jars": str(find_jar(os.environ))}
    command = [PROGRAMS / "spark-sql", *confs(settings), "-f", tmp_path / "statements.sql"]
    told = run(command, tmp_path)
    assert "{}\t{}".format(*right()) in told.splitlines()
    assert PRUNED in told


@pytest.mark.spark_matrix
def test_a_connect_server_gets_the_jar_from_each_session_that_registers(
    weather: str, tmp_path: Path
) -> None:
    pytest.importorskip("grpc", reason="Spark Connect needs the extra `connect`")
    client = [sys.executable, "-m", "tests.spark.ways_script", "connect", weather]
    settings = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
    with connect_server("local[2]", tmp_path / "server", settings) as url:
        found = answer(run([*client, url], tmp_path / "client"))
        newer = other_spark(tmp_path / "newer", "9.9.9")
        refused = answer(run([*client, url], tmp_path / "other", SPARK_HOME=str(newer)))
    native = ["registered", "another, registered", "first again"]
    plain = ["unregistered", "another"]
    assert found == {**dict.fromkeys(native, NATIVE), **dict.fromkeys(plain, PLAIN), "warnings": []}
    warned = refused.pop("warnings")
    assert refused == dict.fromkeys([*native, *plain], PLAIN)
    assert len(warned) == 2  # one for each session
    assert all("here is 9.9.9; start the server with the jar" in each for each in warned)
