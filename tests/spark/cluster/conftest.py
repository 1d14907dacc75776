"""The cluster, once per test process, and the drivers that use it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spark.cluster.driver import Driver, Drivers
from tests.spark.cluster.files import make_files
from tests.spark.cluster.standalone import HOSTS, StandaloneCluster, start_cluster
from tests.spark.connect_server import PYTHONPATH

EXECUTORS = {
    "spark.cores.max": str(len(HOSTS)),
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -Djava.net.preferIPv4Stack=true",
    "spark.executorEnv.PYTHONPATH": PYTHONPATH,  # for the functions of tests.spark.cluster.work
    "spark.executorEnv.SPARK_LOCAL_IP": "127.0.0.1",
    # where an executor died its shuffled rows are gone; Spark would ask for them for 15 seconds
    "spark.shuffle.io.maxRetries": "1",
    "spark.shuffle.io.retryWait": "200ms",
    # so little data would be shuffled into one task
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
    # a job must not begin on one of them before the other is there
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "60s",
}
# Tasks that wait at a gate are soon done twice, in all tests: the more may go wrong.
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
    """What drivers tell the history server."""
    return tmp_path_factory.mktemp("events")


@pytest.fixture(scope="session")
def started_drivers(
    started_cluster: StandaloneCluster, event_log: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Drivers]:
    told = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": event_log.as_uri(),
        "spark.eventLog.compress": "false",
    }
    config = {**EXECUTORS, **SPECULATION, **told}

    def make() -> Driver:
        return Driver(started_cluster.url, tmp_path_factory.mktemp("driver"), config)

    drivers = Drivers(make)
    yield drivers
    drivers.stop()


@pytest.fixture
def drivers(cluster: StandaloneCluster, started_drivers: Drivers) -> Drivers:
    assert cluster.workers
    return started_drivers


@pytest.fixture
def driver(drivers: Drivers) -> Driver:
    """One with nothing to do; a test may kill it."""
    return drivers.idle()


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> str:
    return make_files(tmp_path_factory.mktemp("netcdf") / "files")
