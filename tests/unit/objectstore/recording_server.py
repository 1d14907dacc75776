"""A server that speaks as much S3 as one client needs, and remembers what it was asked."""

import hashlib
import re
import threading
import time
from dataclasses import dataclass
from email.utils import formatdate
from http import HTTPStatus
from typing import cast
from urllib.parse import unquote, urlsplit

from frazil.objectstore.credentials import S3FixedCredentials, S3StaticCredentials
from frazil.objectstore.protocol import RemoteSettings
from frazil.objectstore.remote.s3 import S3Place
from frazil.testing.loopback import LoopbackServer, QuietHandler

SMALL = RemoteSettings(request_bytes=1000, max_requests_for_object=4, max_tries=2)
DATA = bytes(range(256)) * 100  # 25,600 bytes
SECRET = "not-to-be-shown"  # noqa: S105 - of nobody
STATIC = S3FixedCredentials(S3StaticCredentials("id", SECRET))
_RANGE = re.compile(r"bytes=(\d*)-(\d*)")


@dataclass(frozen=True, slots=True)
class Asked:
    method: str
    path: str
    query: str
    headers: dict[str, str]  # names in lower case


class RecordingServer(LoopbackServer):
    """Objects by path. `knows_ranges=False`: sends whole objects only, as some servers do."""

    def __init__(self, *, knows_ranges: bool = True, pause_s: float = 0.0) -> None:
        super().__init__(_Handler)
        self.objects: dict[str, bytes] = {}
        self.asked: list[Asked] = []
        self.busiest = 0  # most requests at a time
        self.knows_ranges = knows_ranges
        self.pause_s = pause_s
        self.counts_generations = False  # as Google's server does
        self.tells_times = True  # False: no Last-Modified, as servers of generated content
        self.generations: dict[str, int] = {}
        self._busy = 0
        self._count_lock = threading.Lock()

    def last(self, method: str) -> Asked:
        return [one for one in self.asked if one.method == method][-1]

    def count(self, method: str) -> int:
        return sum(one.method == method for one in self.asked)

    def enter(self, asked: Asked) -> None:
        with self._count_lock:
            self.asked.append(asked)
            self._busy += 1
            self.busiest = max(self.busiest, self._busy)

    def leave(self) -> None:
        with self._count_lock:
            self._busy -= 1


class _Handler(QuietHandler):
    def handle_any(self) -> None:
        server = cast("RecordingServer", self.server)
        parts = urlsplit(self.path)
        headers = {name.lower(): value for name, value in self.headers.items()}
        server.enter(Asked(self.command, unquote(parts.path), parts.query, headers))
        time.sleep(server.pause_s)
        body = self.rfile.read(int(headers.get("content-length", 0)))
        server.leave()  # the client's next request may come before this thread goes on
        if self.command == "PUT":
            self._take(server, unquote(parts.path), body)
        else:
            self._give(server, unquote(parts.path), headers)

    do_GET = do_HEAD = do_PUT = handle_any  # noqa: N815 - the library's names

    def _take(self, server: RecordingServer, path: str, body: bytes) -> None:
        now = server.generations.get(path, 0)
        expected = self.headers.get("x-goog-if-generation-match")
        if server.counts_generations and expected not in (None, str(now)):
            self._answer(HTTPStatus.PRECONDITION_FAILED, {}, b"")
            return
        server.objects[path] = body
        server.generations[path] = now + 1
        headers = {"ETag": _etag(body)}
        if server.counts_generations:
            headers["x-goog-generation"] = str(now + 1)
        self._answer(HTTPStatus.OK, headers, b"")

    def _give(self, server: RecordingServer, path: str, asked: dict[str, str]) -> None:
        data = server.objects.get(path)
        if data is None:
            self._answer(HTTPStatus.NOT_FOUND, {}, b"<Error><Code>NoSuchKey</Code></Error>")
            return
        headers = {"ETag": _etag(data)}
        if server.tells_times:
            headers["Last-Modified"] = formatdate(1e9, usegmt=True)
        if server.counts_generations:
            headers["x-goog-generation"] = str(server.generations[path])
        if asked.get("if-none-match") == headers["ETag"]:
            self._answer(HTTPStatus.NOT_MODIFIED, headers, b"")
            return
        wanted = asked.get("range", "")
        found = _RANGE.fullmatch(wanted) if server.knows_ranges else None
        if found is None:
            self._answer(HTTPStatus.OK, headers, data)
            return
        start = int(found[1]) if found[1] else max(0, len(data) - int(found[2]))
        stop = int(found[2]) + 1 if found[1] and found[2] else len(data)
        if start >= len(data):
            self._answer(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, headers, b"")
            return
        part = data[start:stop]
        headers["Content-Range"] = f"bytes {start}-{start + len(part) - 1}/{len(data)}"
        self._answer(HTTPStatus.PARTIAL_CONTENT, headers, part)

    def _answer(self, status: HTTPStatus, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _etag(data: bytes) -> str:
    return f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"'


def s3(server: RecordingServer, **options: object) -> S3Place:
    """A place in a bucket of the server; options replace what is given here."""
    given = {
        "bucket": "bucket",
        "prefix": "root",
        "credentials": STATIC,
        "region": "eu-x-1",
        "endpoint_url": server.url,
    }
    return S3Place(**(given | options))  # type: ignore[arg-type]  # by their names
