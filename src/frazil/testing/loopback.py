"""An HTTP server in threads of this process, on a free port of the loopback interface."""

import contextlib
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

HOST = "127.0.0.1"


class LoopbackServer(ThreadingHTTPServer):
    """Serves from `with` until its end; then every connection is closed, busy or not."""

    daemon_threads = True
    request_queue_size = 256  # a test may well connect from many threads at once

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__((HOST, 0), handler)
        self._open: dict[threading.Thread, socket.socket] = {}
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()
        self._thread.join()
        with self._lock:
            waiting = dict(self._open)
        for connection in waiting.values():
            with contextlib.suppress(OSError):  # it may have ended by itself
                connection.shutdown(socket.SHUT_RDWR)
        for thread in waiting:
            thread.join(10)

    def process_request_thread(self, request: object, client_address: object) -> None:
        assert isinstance(request, socket.socket)
        with self._lock:
            self._open[threading.current_thread()] = request
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._lock:
                del self._open[threading.current_thread()]

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that has gone away is nothing to print."""


class QuietHandler(BaseHTTPRequestHandler):
    """Keeps connections open, prints nothing."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name in the library
        pass
