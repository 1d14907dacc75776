"""Servers as fixtures: started when first asked for, once per test process, stopped at its end.

A server that cannot be installed (no npm, no network) skips the tests that want it, with the
reason; strict mode makes that a failure.
"""

import os
import subprocess
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from frazil.testing.fault_proxy import FaultProxy
from tests.servers.azure import AzureServer, start_azurite
from tests.servers.http_files import HttpServer
from tests.servers.process import HOST, ServerDidNotStartError
from tests.servers.s3 import S3Server, start_ministack, start_seaweedfs

ROOT = Path(__file__).parents[2]

# Clients honour proxies even for this machine, and without credentials ask the metadata address.
for name in ("NO_PROXY", "no_proxy"):
    os.environ[name] = ",".join(filter(None, [os.environ.get(name), HOST, "localhost"]))
os.environ["AWS_EC2_METADATA_DISABLED"] = "true"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        for name, value in getattr(item, "funcargs", {}).items():
            if isinstance(value, S3Server | AzureServer):
                report.sections.append((f"log of {name}", value.process.tail()))
    return report


def require_installed(name: str) -> None:
    done = subprocess.run(
        [ROOT / "scripts" / "install_servers.sh", name],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        pytest.skip(f"{name} cannot be installed: {done.stderr.strip()}")


def started[S: (S3Server, AzureServer)](
    start: Callable[[Path], S], factory: pytest.TempPathFactory
) -> Iterator[S]:
    """Tried three times: a port that was free may have been taken meanwhile."""
    for attempts_left in (2, 1, 0):
        try:
            server = start(factory.mktemp("server") / "files")
            break
        except ServerDidNotStartError:
            if not attempts_left:
                raise
    try:
        yield server
    finally:
        server.process.stop()


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """SeaweedFS: a real S3 server. A lost race costs a second there; see hot_s3_server."""
    yield from started(start_seaweedfs, tmp_path_factory)


@pytest.fixture(scope="session")
def hot_s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """ministack: fast and correct where many write one key; it checks no credentials."""
    require_installed("ministack")
    yield from started(start_ministack, tmp_path_factory)


@pytest.fixture(scope="session")
def azure_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AzureServer]:
    require_installed("azurite")
    yield from started(start_azurite, tmp_path_factory)


@pytest.fixture
def http_server() -> Iterator[Callable[[Path], HttpServer]]:
    """Serves the folders it is called with until the test ends."""
    with ExitStack() as running:
        yield lambda root: running.enter_context(HttpServer(root))


@pytest.fixture
def fault_proxy() -> Iterator[Callable[[str], FaultProxy]]:
    """Stands before the servers it is called with until the test ends."""
    with ExitStack() as running:
        yield lambda target: running.enter_context(FaultProxy(target))
