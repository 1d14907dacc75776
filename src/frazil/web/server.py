"""The explorer, listening."""

import socket
from collections.abc import Collection
from contextlib import suppress
from threading import Thread
from types import TracebackType
from typing import Self

import uvicorn
from starlette.types import ASGIApp

from frazil.api.repository import Repository
from frazil.repo.repository import Repository as Engine
from frazil.web.app import create_app
from frazil.web.guard import LOOPBACK

EVERYWHERE = ("0.0.0.0", "::", "")  # noqa: S104 -- to be recognised, not to be listened on


class Server:
    """Bound on creation, so that its URL is known; answers while `run`, or in a `with` block."""

    def __init__(
        self,
        repository: Repository | Engine,
        *,
        name: str = "repository",
        host: str = "127.0.0.1",
        port: int = 0,
        allowed_hosts: Collection[str] = (),
    ) -> None:
        """Port 0 is a free one. Raises OSError if the port is taken."""
        self.app: ASGIApp = create_app(
            repository,
            name=name,
            hosts={*LOOPBACK, host, *allowed_hosts},
            any_address=host in EVERYWHERE,
        )
        self._socket = socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET
        )
        self.host, self.port = host, int(self._socket.getsockname()[1])
        config = uvicorn.Config(
            self.app,
            loop="asyncio",
            http="h11",
            ws="none",
            lifespan="off",
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=3,
        )
        self._server = uvicorn.Server(config)
        self._thread: Thread | None = None

    @property
    def url(self) -> str:
        """To be opened on this machine."""
        host = "127.0.0.1" if self.host in EVERYWHERE else self.host
        return f"http://[{host}]:{self.port}/" if ":" in host else f"http://{host}:{self.port}/"

    def run(self) -> None:
        """Until the process is interrupted; requests that are being answered are finished."""
        with self._socket, suppress(KeyboardInterrupt):
            self._server.run(sockets=[self._socket])

    def __enter__(self) -> Self:
        """Answers in a thread of its own."""
        self._thread = Thread(target=self.run, name="frazil-explorer", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.should_exit = True
        if self._thread is not None:
            self._thread.join()
