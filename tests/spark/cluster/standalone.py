"""A standalone Spark cluster on this machine: a master and two workers, each a process of its own.

    master     spark-class ...master.Master
    worker     spark-class ...worker.Worker       hosts 127.0.0.1 and localhost: two names, so
    '- executor (Java)                            that Spark takes them for two machines
       '- pyspark.daemon
          '- Python workers

Nothing listens beyond the loopback interface.
"""

import os
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import psutil

from frazil.spark.runtime.java import find_java
from tests.servers.process import HOST, ServerProcess, start
from tests.spark.cluster.processes import GONE_S, kill_tree, tree_of
from tests.spark.connect_server import SPARK_CLASS

HOSTS = (HOST, "localhost")
CORES = 1  # of each worker, so that no application has both its executors on one
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Djava.net.preferIPv4Stack=true"
_MASTER_URL = re.compile(r"Starting Spark master at (spark://\S+)")


@dataclass(frozen=True, slots=True)
class Worker:
    host: str
    server: ServerProcess

    @property
    def lives(self) -> bool:
        return self.server.process.poll() is None

    def tree(self) -> list[psutil.Process]:
        return tree_of(self.server.process.pid) if self.lives else []

    def stop(self) -> None:
        tree = self.tree()
        self.server.stop()
        for process in tree:  # executors and daemons are in process groups of their own
            with suppress(psutil.NoSuchProcess):
                process.kill()


@dataclass(slots=True)
class StandaloneCluster:
    folder: Path
    master: ServerProcess
    url: str
    workers: list[Worker] = field(default_factory=list)
    _names: "count[int]" = field(default_factory=count)

    def restore(self) -> None:
        """One living worker for each host."""
        self.workers = [worker for worker in self.workers if worker.lives]
        for host in HOSTS:
            if all(worker.host != host for worker in self.workers):
                self.workers.append(self._start_worker(host))

    def worker_of(self, pid: int) -> Worker:
        """Whose executor has this Python process."""
        above = {process.pid for process in psutil.Process(pid).parents()}
        return next(each for each in self.workers if each.server.process.pid in above)

    def stop(self) -> None:
        for worker in self.workers:
            worker.stop()
        self.master.stop()

    def texts(self) -> dict[Path, str]:
        """What master, workers and executors wrote."""
        files = [path for path in self.folder.rglob("*") if path.is_file()]
        return {path: path.read_text(errors="replace") for path in files}

    def _start_worker(self, host: str) -> Worker:
        folder = self.folder / f"worker-{next(self._names)}"
        server = _start(
            folder,
            "worker.Worker",
            *("--host", host, "--cores", str(CORES), "--memory", "4g"),
            *("--work-dir", str(folder / "work"), self.url),
            ready=_said(folder, "Successfully registered with master"),
        )
        return Worker(host, server)


def start_cluster(folder: Path) -> StandaloneCluster:
    home = folder / "master"
    master = _start(
        home, "master.Master", "--host", HOST, ready=_said(home, "I have been elected leader")
    )
    found = _MASTER_URL.search(master.log.read_text())
    assert found, master.tail()
    cluster = StandaloneCluster(folder, master, found[1])
    try:
        cluster.restore()
    except BaseException:
        cluster.stop()
        raise
    return cluster


def kill(worker: Worker) -> None:
    """SIGKILL for the worker, its executors and all their Python processes."""
    kill_tree(worker.server.process.pid)
    worker.server.process.wait(GONE_S)


def _start(folder: Path, name: str, *arguments: str, ready: Callable[[], object]) -> ServerProcess:
    ports = ("--port", "0", "--webui-port", "0")
    return start(
        [str(SPARK_CLASS), f"org.apache.spark.deploy.{name}", *ports, *arguments],
        environment={
            "JAVA_HOME": str(find_java(os.environ).home),
            "SPARK_LOCAL_IP": HOST,  # where the web pages, which cannot be turned off, listen
            "SPARK_DAEMON_JAVA_OPTS": f"{JAVA_OPTIONS} -Dspark.master.rest.enabled=false",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_CONF_DIR": str(folder),  # none of this machine's settings
        },
        folder=folder,
        ready=ready,
    )


def _said(folder: Path, text: str) -> Callable[[], object]:
    def ready() -> None:
        if text not in (folder / "log").read_text(errors="replace"):
            raise ConnectionError(f"not yet {text!r}")

    return ready
