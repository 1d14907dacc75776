"""A server that a test starts: on the loopback interface, in a process group, stopped by id."""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

HOST = "127.0.0.1"
START_S = 60.0
STOP_S = 10.0


class ServerDidNotStartError(Exception):
    """What it said before it gave up is part of the message."""


def free_ports(count: int) -> list[int]:
    """Ports of the loopback interface that nobody listens on at this moment, all different."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((HOST, 0))
        return [each.getsockname()[1] for each in sockets]


@dataclass(frozen=True, slots=True)
class ServerProcess:
    process: subprocess.Popen[bytes]
    log: Path

    def tail(self, lines: int = 40) -> str:
        """The end of what it printed."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def stop(self) -> None:
        for wish in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, wish)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(STOP_S)
                return


def start(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    folder: Path,
    ready: Callable[[], object],
) -> ServerProcess:
    """The server once `ready()` no longer raises OSError; its output goes to `folder/log`."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "log"
    # If this process is killed before it can clean up, the kernel ends the server.
    watched = ["setpriv", "--pdeathsig", "TERM", *command] if shutil.which("setpriv") else command
    with log.open("wb") as output:
        process = subprocess.Popen(
            watched,
            env={**os.environ, **environment},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    server = ServerProcess(process, log)
    try:
        wait_until(ready, server)
    except BaseException:
        server.stop()
        raise
    return server


def wait_until(ready: Callable[[], object], server: ServerProcess) -> None:
    deadline = time.monotonic() + START_S
    while True:
        try:
            ready()
        except OSError as error:
            if server.process.poll() is not None or time.monotonic() > deadline:
                raise ServerDidNotStartError(f"{error}\n{server.tail()}") from error
            time.sleep(0.05)
        else:
            return
