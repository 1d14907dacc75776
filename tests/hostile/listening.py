"""Web servers of this machine that remember who asked what of them."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SECRET = b"what nobody outside may see. " * 10


@dataclass(frozen=True, slots=True)
class Listener:
    """`host` is one of 127.0.0.0/8: another number is another host, and all are this machine."""

    host: str
    port: int
    asked: list[str] = field(default_factory=list)
    redirects: dict[str, str] = field(default_factory=dict)  # path -> location

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"


@contextmanager
def listener(host: str = "127.0.0.1") -> Iterator[Listener]:
    server = ThreadingHTTPServer((host, 0), BaseHTTPRequestHandler)
    found = Listener(host, server.server_port)
    server.RequestHandlerClass = _handler(found)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _handler(found: Listener) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found.asked.append(self.path)
            location = found.redirects.get(self.path)
            if location is not None:
                self.send_response(302)
                self.send_header("Location", location)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self._send(SECRET)

        do_HEAD: Callable[..., None] = do_GET  # noqa: N815 - the library's name

        def _send(self, data: bytes) -> None:
            start, stop = 0, len(data)
            wanted = self.headers.get("Range", "")
            if wanted.startswith("bytes="):
                first, _, last = wanted[6:].partition("-")
                start, stop = int(first), min(stop, int(last or stop - 1) + 1)
                self.send_response(206)
                self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{len(data)}")
            else:
                self.send_response(200)
            self.send_header("Content-Length", str(stop - start))
            self.send_header("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT")
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(data[start:stop])

        def log_message(self, *_args: object) -> None:
            """Not on the terminal."""

    return Handler
