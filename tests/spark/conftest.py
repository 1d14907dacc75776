"""One Spark session for all tests, quiet, with two cores."""

import os
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from frazil.spark.spark_session import session
from tests.spark.preloading import PRELOADED

# Spark would compile each query as a whole, which takes longer than to run it over few rows. They
# are compiled in a part of the oracle's worlds, in the demo, and by commands.
INTERPRETED = {"spark.sql.codegen.wholeStage": "false"}
FOREIGN_WARNINGS = (
    # PySpark 4.3 warns about pandas 3 (docs/spark-facts.md 8)
    "ignore:PySpark does not yet fully support pandas:FutureWarning",
    # py4j leaves its sockets to the garbage collector when a session ends
    "ignore:unclosed.*socket:ResourceWarning",
    "ignore:Exception ignored in.*socket:pytest.PytestUnraisableExceptionWarning",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            for each in FOREIGN_WARNINGS:
                item.add_marker(pytest.mark.filterwarnings(each))


@pytest.fixture(autouse=True, scope="module")
def _views_go_with_their_module() -> Iterator[None]:
    """The session is shared, and a view hides a table of its name."""
    yield
    running = SparkSession.getActiveSession()
    if running is not None:
        for table in running.catalog.listTables():
            if table.isTemporary:
                running.catalog.dropTempView(table.name)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    log = tmp_path_factory.mktemp("spark") / "spark.log"
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PYTHONPATH", str(PRELOADED), prepend=os.pathsep)
        started = session(
            app_name="tests",
            master="local[2]",
            short_lived=True,
            log_path=log,
            config=INTERPRETED,
        )
    yield started
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # py4j's sockets
        started.stop()
