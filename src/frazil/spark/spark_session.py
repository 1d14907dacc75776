"""An embedded Spark session: quiet, local, and set up for many small Python tasks."""

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from py4j.protocol import (  # type: ignore[import-untyped]  # py4j has no annotations
    Py4JError,
    Py4JJavaError,
)
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from frazil.errors import SessionStateError
from frazil.spark.io.data_source import register
from frazil.spark.native.install import with_jar
from frazil.spark.runtime.java import find_java


@dataclass(frozen=True, slots=True)
class Setting:
    key: str
    value: str
    reason: str


SETTINGS = (
    Setting(
        "spark.python.unix.domain.socket.enabled",
        "true",
        "a tiny Python task takes 7 ms instead of 30 over TCP",
    ),
    Setting("spark.ui.enabled", "false", "no web server unless asked for"),
    Setting("spark.ui.showConsoleProgress", "false", "frazil draws its own progress"),
    Setting("spark.driver.host", "127.0.0.1", "nothing listens beyond this machine"),
    Setting("spark.driver.bindAddress", "127.0.0.1", "same"),
    Setting("spark.log.level", "ERROR", "warnings of an embedded engine tell a user nothing"),
    Setting("spark.driver.memory", "2g", "the driver is also the executor; Spark's 1g is tight"),
    Setting(
        "spark.sql.session.timeZone",
        "UTC",
        "array times are in UTC, and so text compared with them should be",
    ),
    Setting(
        "spark.sql.execution.arrow.pyspark.enabled", "true", "toPandas and back without pickling"
    ),
    Setting(
        "spark.sql.shuffle.partitions",
        "16",
        "200 is meant for clusters; adaptive execution only ever lowers it",
    ),
)

_JAVA_OPTIONS = (
    "-XX:+UseParallelGC",  # throughput matters here, pauses do not
    "-Djava.net.preferIPv4Stack=true",  # 127.0.0.1 means that on every machine
)
_SHORT_LIVED = "-XX:TieredStopAtLevel=1"  # no C2: starts with 8 instead of 13 CPU seconds
_ENDS_WITHIN_S = 10.0  # of a Java process whose connections are closed

_LOGGING = """\
# Made by frazil for an embedded Spark session.
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""


def session(
    *,
    app_name: str = "frazil",
    master: str = "local[*]",
    short_lived: bool = False,
    bundled_java: bool = False,
    log_path: str | os.PathLike[str] | None = None,
    config: Mapping[str, str] | None = None,
    warehouse: str | os.PathLike[str] | None = None,
) -> SparkSession:
    """The running session if there is one, else a new embedded one, with what `register` adds.

    What Spark and its workers write to standard error goes to `log_path`, by default a file in
    the temporary folder, for as long as the session lives. `short_lived` trades peak speed
    for a faster start. `bundled_java` passes over the machine's Java. `config` wins over SETTINGS.
    `warehouse` is where the catalog `frazil` looks for repositories, by default the current folder.
    """
    running = SparkSession.getActiveSession()
    if running is not None:
        register(running, warehouse=warehouse)
        return running
    folder = Path(tempfile.mkdtemp(prefix="frazil-spark-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    log = Path(log_path) if log_path is not None else folder / "spark.log"
    builder = SparkSession.builder.appName(app_name).master(master)
    given = with_jar(config or {})
    for key, value in _configuration(folder, short_lived=short_lived, config=given).items():
        builder = builder.config(key, value)
    os.environ["JAVA_HOME"] = str(find_java(os.environ, bundled_only=bundled_java).home)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers see the same packages
    # prints every SQL error as JSON, although the error is raised as well
    PySparkLogger.getLogger("SQLQueryContextLogger").disabled = True
    with warnings.catch_warnings():
        # PySpark 4.3 warns about pandas 3 at every start (docs/spark-facts.md 8)
        warnings.filterwarnings(
            "ignore", "PySpark does not yet fully support pandas", FutureWarning
        )
        with _standard_error_to(log), _start_explained_by(log):
            started = builder.getOrCreate()
        register(started, warehouse=warehouse)  # its warnings are for the user
        return started


def is_running() -> bool:
    """True if a session was started in this process, in any thread."""
    return SparkSession._instantiatedSession is not None  # noqa: SLF001 -- the others ask a thread


def has_ended(spark: SparkSession, error: Exception) -> bool:
    """True if `error` came because the Java process, started here, is gone."""
    process = getattr(spark.sparkContext._gateway, "proc", None)  # noqa: SLF001 -- its only owner
    if process is None:
        return False
    if isinstance(error, OSError | EOFError | Py4JError) and not isinstance(error, Py4JJavaError):
        # a process that is killed closes its connections a moment before it has ended
        with suppress(subprocess.TimeoutExpired):
            process.wait(_ENDS_WITHIN_S)
    return process.poll() is not None


def _configuration(folder: Path, *, short_lived: bool, config: Mapping[str, str]) -> dict[str, str]:
    logging = folder / "log4j2.properties"
    logging.write_text(_LOGGING)
    options = [*_JAVA_OPTIONS, f"-Dlog4j2.configurationFile=file:{logging}"]
    if short_lived:
        options.append(_SHORT_LIVED)
    return {
        **{setting.key: setting.value for setting in SETTINGS},
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.driver.extraJavaOptions": " ".join(options),
        **config,
    }


@contextmanager
def _start_explained_by(log: Path) -> Iterator[None]:
    """A failing start raises SessionStateError with the end of the log, where the reason is."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        told = log.read_text(errors="replace").splitlines()[-_LOG_LINES:]
        reason = "\n  ".join([str(error), *told])
        raise SessionStateError(f"Spark did not start; {log} ends with\n  {reason}") from error


_LOG_LINES = 20


@contextmanager
def _standard_error_to(log: Path) -> Iterator[None]:
    """Processes started inside inherit `log` as their standard error.

    The launcher writes there before any logging is configured, so a file descriptor it is.
    """
    sys.stderr.flush()
    kept = os.dup(2)
    target = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.dup2(target, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(target)
