"""Makes the native table and the catalogs known to a running session of Spark."""

import os
import warnings
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from frazil.errors import IcechunkError
from frazil.spark.native.jar import find_jar

_INSTALLED = "spark.frazil.jar"  # a setting of the session: the jar that was added to it
_CATALOG = "frazil.spark.Catalog"
NAMED, LOCATED = "frazil", "icechunk"  # the catalog of a warehouse, and that of any location

type Warehouse = str | os.PathLike[str]


def install_native(spark: SparkSession, warehouse: Warehouse | None = None) -> bool:
    """Adds frazil's jar to a session, and its catalogs. False, after a warning, where that is
    impossible: then `format("icechunk")` is the plain Python source, which reads whole arrays and
    then filters.
    """
    if not _add_jar(spark):
        return False
    _set_catalogs(spark, warehouse)
    return True


def _add_jar(spark: SparkSession) -> bool:
    if spark.conf.get(_INSTALLED, ""):
        return True
    try:
        jar = str(find_jar(os.environ))
        if is_remote():
            spark.addArtifact(jar)
        else:
            _load_on_driver(spark, jar)
            spark.sql(f"ADD JAR '{_quote(jar)}'")
        spark.conf.set(_INSTALLED, jar)
    except (IcechunkError, PySparkException, OSError) as error:
        warnings.warn(
            f"Spark's native table of frazil is not available, so filters read everything: {error}",
            stacklevel=4,
        )
        return False
    return True


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
        if not spark.conf.get(_setting(name), ""):
            spark.conf.set(_setting(name), _CATALOG)
    place = _setting(NAMED, "warehouse")
    if warehouse is not None:
        spark.conf.unset(_setting(NAMED, "repository"))
        spark.conf.set(place, _absolute(warehouse))
    elif not is_remote() and not any(
        spark.conf.get(_setting(NAMED, each), "") for each in ("warehouse", "repository")
    ):
        spark.conf.set(place, str(Path.cwd()))  # of a server, it would be the folder of the client


def _setting(catalog: str, name: str = "") -> str:
    return f"spark.sql.catalog.{catalog}" + (f".{name}" if name else "")


def _absolute(warehouse: Warehouse) -> str:
    text = os.fspath(warehouse)
    return text if "://" in text else str(Path(text).absolute())


def _quote(path: str) -> str:
    return path.replace("\\", "\\\\").replace("'", "\\'")
