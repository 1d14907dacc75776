"""Makes the native table known to a running session of Spark."""

import os
import threading
import warnings
from collections.abc import Mapping
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from frazil.errors import IcechunkError, SessionStateError
from frazil.spark.native.answers import JAVA, WHICH
from frazil.spark.native.jar import (
    PREFIX,
    find_jar,
    find_spark_jars,
    sources_digest,
    spark_version,
)

NATIVE = "spark.frazil.native"  # a setting: false for the plain Python source
INSTALLED = "spark.frazil.jar"  # set here: the jar that was added to a session, or _NONE
_NONE = "none"
_added = threading.local()  # in which thread: Spark finds classes of a jar there
_CATALOG = "frazil.spark.Catalog"
NAMED, LOCATED = "frazil", "icechunk"  # the catalog of a warehouse, and that of any location

type Warehouse = str | os.PathLike[str]


def install_native(spark: SparkSession, warehouse: Warehouse | None = None) -> bool:
    """Adds frazil's jar to a session, and its catalogs. False, after one warning, where that is
    impossible: then `format("icechunk")` is the plain Python source, which reads whole arrays and
    then filters.
    """
    if not _add_jar(spark):
        return False
    _set_catalogs(spark, warehouse)
    return True


def _add_jar(spark: SparkSession) -> bool:
    """Spark looks for data sources in what the calling thread has loaded: so this is also for
    other threads than the one that started a session, unless that was started with the jar.
    """
    found = _setting(spark, INSTALLED, "")
    if not is_wanted(_setting(spark, NATIVE, "")) or found == _NONE:
        return False
    try:
        if is_connect(spark):
            jar = found or _add_to_server(spark)
        else:
            jar = found or str(find_jar(os.environ))
            _add_to_thread(spark, jar)
    except (IcechunkError, PySparkException, OSError) as error:
        spark.conf.set(INSTALLED, _NONE)
        warnings.warn(
            "Spark's native table of frazil is not available, so that filters read all chunks: "
            f"{_first_line(error)}; docs/spark-native.md tells what to do",
            stacklevel=4,
        )
        return False
    spark.conf.set(INSTALLED, jar)
    return True


def _add_to_thread(spark: SparkSession, jar: str) -> None:
    """Adds the jar in this thread: Spark gives its class loader to the thread that adds it."""
    application = str(spark.sparkContext.applicationId)
    if getattr(_added, "to", None) != (application, jar):
        _load_on_driver(spark, jar)
        spark.sql(f"ADD JAR '{_quote(jar)}'")
        _added.to = (application, jar)


def _load_on_driver(spark: SparkSession, jar: str) -> None:
    """Makes the jar known to all threads of the driver, as if Spark had been started with it.

    `ADD JAR` does so for queries only. The thread behind Spark's UI makes the metrics of a table
    by the names of their classes, and shows "N/A" where it finds none.
    """
    jvm = spark.sparkContext._gateway.jvm  # type: ignore[union-attr]  # there is one # noqa: SLF001
    loader, shared = jvm.java.lang.Thread.currentThread().getContextClassLoader(), None
    while loader is not None:
        if loader.getClass().getName() == "org.apache.spark.util.MutableURLClassLoader":
            shared = loader
        loader = loader.getParent()
    if shared is not None:
        shared.addURL(jvm.java.io.File(jar).toURI().toURL())


def _set_catalogs(spark: SparkSession, warehouse: Warehouse | None) -> None:
    """Keeps what the user has set, but for a warehouse that is given here."""
    for name in (NAMED, LOCATED):
        if not spark.conf.get(_catalog_setting(name), ""):
            spark.conf.set(_catalog_setting(name), _CATALOG)
    place = _catalog_setting(NAMED, "warehouse")
    if warehouse is not None:
        spark.conf.unset(_catalog_setting(NAMED, "repository"))
        spark.conf.set(place, _absolute(warehouse))
    elif not is_connect(spark) and not any(
        spark.conf.get(_catalog_setting(NAMED, each), "") for each in ("warehouse", "repository")
    ):
        spark.conf.set(place, str(Path.cwd()))  # of a server, it would be the folder of the client


def _catalog_setting(catalog: str, name: str = "") -> str:
    return f"spark.sql.catalog.{catalog}" + (f".{name}" if name else "")


def _absolute(warehouse: Warehouse) -> str:
    text = os.fspath(warehouse)
    return text if "://" in text else str(Path(text).absolute())


def with_jar(config: Mapping[str, str]) -> dict[str, str]:
    """Settings of a session to be started, with the jar among `spark.jars` if there can be one."""
    if not is_wanted(config.get(NATIVE, "")):
        return dict(config)
    try:
        jar = str(find_jar(os.environ))
    except (IcechunkError, OSError):  # told by install_native
        return dict(config)
    given = [each for each in config.get("spark.jars", "").split(",") if each]
    return {**config, "spark.jars": ",".join([*given, jar])}


def is_wanted(setting: str) -> bool:
    """Value of the setting `spark.frazil.native`; the Java side has the same rule."""
    return setting.strip().lower() != "false"


def is_connect(spark: SparkSession) -> bool:
    """True for a client of a Spark Connect server, which may be on another machine."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def _add_to_server(spark: SparkSession) -> str:
    """Adds the jar to a session on a Connect server; other sessions do not see it."""
    started_with = _setting(spark, "spark.jars", "")
    if PREFIX in started_with:
        return started_with
    _require_fitting_server(spark)
    jar = str(find_jar(os.environ))
    spark.addArtifact(jar)
    return jar


def _require_fitting_server(spark: SparkSession) -> None:
    """The jar is made for the Spark that is installed here, and asks questions of this frazil."""
    here = spark_version(find_spark_jars(os.environ))
    remedy = "start the server with the jar that `frazil spark jar` prints there"
    if spark.version != here:
        raise SessionStateError(f"the server runs Spark {spark.version}, here is {here}; {remedy}")
    told = spark.read.format("icechunk").option(JAVA, WHICH).load().schema.names
    if told != [sources_digest()]:
        raise SessionStateError(f"the server has another version of frazil; {remedy}")


def _setting(spark: SparkSession, name: str, otherwise: str) -> str:
    return spark.conf.get(name, otherwise) or otherwise


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:500]


def _quote(path: str) -> str:
    return path.replace("\\", "\\\\").replace("'", "\\'")
