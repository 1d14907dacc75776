"""The cluster, once per test process, and the drivers that use it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spark.cluster.driver import ROOT, Driver
from tests.spark.cluster.files import make_files
from tests.spark.cluster.standalone import HOSTS, StandaloneCluster, start_cluster

EXECUTORS = {
    "spark.cores.max": str(len(HOSTS)),
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -Djava.net.preferIPv4Stack=true",
    "spark.executorEnv.PYTHONPATH": str(ROOT),  # for the functions of tests.spark.cluster.work
    "spark.executorEnv.SPARK_LOCAL_IP": "127.0.0.1",
    # where an executor died its shuffled rows are gone; Spark would ask for them for 15 seconds
    "spark.shuffle.io.maxRetries": "1",
    "spark.shuffle.io.retryWait": "200ms",
    # a job must not begin on one of them before the other is there
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "60s",
}
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "500ms",
}


@pytest.fixture(scope="session")
def started_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    cluster = start_cluster(tmp_path_factory.mktemp("cluster"))
    try:
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
def cluster(started_cluster: StandaloneCluster) -> StandaloneCluster:
    """With both workers, whatever the last test did to them."""
    started_cluster.restore()
    return started_cluster


@pytest.fixture(scope="session")
def event_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `started_driver` tells the history server."""
    return tmp_path_factory.mktemp("events")


@pytest.fixture(scope="session")
def started_driver(
    started_cluster: StandaloneCluster, event_log: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Driver]:
    told = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": event_log.as_uri(),
        "spark.eventLog.compress": "false",
    }
    folder = tmp_path_factory.mktemp("driver")
    driver = Driver(started_cluster.url, folder, {**EXECUTORS, **told})
    yield driver
    driver.stop()


@pytest.fixture
def driver(cluster: StandaloneCluster, started_driver: Driver) -> Driver:
    """Used by many tests; none kills it."""
    assert cluster.workers
    return started_driver


@pytest.fixture(scope="session")
def doomed_drivers() -> Iterator[list[Driver]]:
    """The last one, if it lives."""
    drivers: list[Driver] = []
    yield drivers
    for driver in drivers:
        driver.stop()


@pytest.fixture
def doomed_driver(
    cluster: StandaloneCluster, doomed_drivers: list[Driver], tmp_path: Path
) -> Driver:
    """One that a test may kill. Its tasks may run twice at once."""
    if not doomed_drivers or not doomed_drivers[-1].lives:
        folder = tmp_path / "doomed"
        folder.mkdir()
        doomed_drivers[:] = [Driver(cluster.url, folder, {**EXECUTORS, **SPECULATION})]
    return doomed_drivers[-1]


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> str:
    return make_files(tmp_path_factory.mktemp("netcdf") / "files")
