"""A proxy between a client and a real HTTP server that does to requests what networks do.

    with FaultProxy("http://127.0.0.1:8333") as proxy:
        proxy.choose = Script(Rule(DropResponse(), method="PUT", path="/repo"))
        ...                                      # the client is given proxy.url as its endpoint
        assert proxy.count("PUT") == 2

The server must not care by which name it is reached: the client's Host header is passed on as it
is, since signatures cover it.
"""

import contextlib
import http.client
import os
import socket
import struct
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import assert_never, cast
from urllib.parse import urlsplit

from frazil.objectstore.remote.remote_reads import bare_etag
from frazil.testing.faults import (
    AnswerWith,
    Choice,
    CutResponse,
    DelayRequest,
    DelayResponse,
    DenyPermission,
    DropRequest,
    DropResponse,
    Fault,
    FillDisk,
    RefuseWith,
    ServeStale,
    Throttle,
    no_fault,
)
from frazil.testing.loopback import LoopbackServer, QuietHandler

# They concern one connection, and here are two.
HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "expect", "proxy-connection"}
RESET_ON_CLOSE = struct.pack("ii", 1, 0)
SERVER_TIMEOUT_S = 60.0
_UNCHANGED = HTTPStatus.NOT_MODIFIED


@dataclass(frozen=True, slots=True)
class Seen:
    """A request. `status` is the server's, or None if it never heard of it."""

    method: str
    path: str
    fault: Fault | None
    status: int | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""

    @property
    def etag(self) -> str:
        found = (value for name, value in self.headers if name.lower() == "etag")
        return bare_etag(next(found, None))


UNHEARD = Answer(HTTPStatus.BAD_GATEWAY)  # told to the client if the server is not there


class FaultProxy(LoopbackServer):
    """`choose` may be replaced at any time; `seen` grows, and may be cleared between requests."""

    def __init__(self, target: str, choose: Choice = no_fault) -> None:
        super().__init__(_Handler)
        where = urlsplit(target)
        assert where.hostname
        assert where.port
        self.target = (where.hostname, where.port)
        self.choose = choose
        self.seen: list[Seen] = []
        self.most_at_once = 0  # requests that were under way together
        self._under_way = 0
        self._seen_lock = threading.Lock()
        self._answers: dict[str, tuple[Answer, Answer]] = {}  # to reads: the last, one before it

    def count(self, method: str | None = None, path: str = "") -> int:
        """The number of requests of that method whose path contains the text."""
        with self._seen_lock:
            return sum(method in (None, one.method) and path in one.path for one in self.seen)

    def clear(self) -> None:
        with self._seen_lock:
            self.seen.clear()
            self.most_at_once = 0

    @contextlib.contextmanager
    def under_way(self) -> Iterator[None]:
        with self._seen_lock:
            self._under_way += 1
            self.most_at_once = max(self.most_at_once, self._under_way)
        try:
            yield
        finally:
            with self._seen_lock:
                self._under_way -= 1

    def remember(self, one: Seen) -> None:
        with self._seen_lock:
            self.seen.append(one)

    def remember_answer(self, path: str, answer: Answer) -> None:
        """Remembers the response to a read, for `stale_answer`, if it differs from the last one."""
        with self._seen_lock:
            last, before = self._answers.get(path, (answer, answer))
            if answer.body != last.body:
                self._answers[path] = answer, last
            else:
                self._answers[path] = answer, before

    def stale_answer(self, path: str, fresh: Answer, known: str) -> Answer:
        """The latest answer to this read that was not this one; this one if there is none.

        `known`: the ETag of what the client has, which the server need not send.
        """
        with self._seen_lock:
            last, before = self._answers.get(path, (fresh, fresh))
        is_last = last.etag == known if fresh.status == _UNCHANGED else last.body == fresh.body
        stale = before if is_last else last
        if known and stale.etag == known:
            return replace(stale, status=_UNCHANGED, body=b"")
        return stale


class _Handler(QuietHandler):
    def handle_any(self) -> None:
        proxy = cast("FaultProxy", self.server)
        body = self._read_body()
        fault = proxy.choose(self.command, self.path)
        with proxy.under_way():
            answer = self._act(fault, proxy.target, body)
        if self.command == "GET" and answer and answer.status != _UNCHANGED and fault is None:
            proxy.remember_answer(self.path, answer)
        # Before the client has its answer: a test that looks after a call sees it.
        proxy.remember(Seen(self.command, self.path, fault, answer.status if answer else None))
        self._reply(fault, answer or UNHEARD)

    def _act(self, fault: Fault | None, target: tuple[str, int], body: bytes) -> Answer | None:
        """The server's response, None if it gets no request; includes all delays."""
        match fault:
            case DropRequest() | RefuseWith() | Throttle() | FillDisk() | DenyPermission():
                return None
            case ServeStale():
                return self._read_stale(target, body)
            case DelayRequest(seconds):
                time.sleep(seconds)
                return self._ask(target, body)
            case DelayResponse(seconds):
                answer = self._ask(target, body)
                time.sleep(seconds)
                return answer
            case _:
                return self._ask(target, body)

    def _reply(self, fault: Fault | None, answer: Answer) -> None:
        match fault:
            case DropRequest(reset) | DropResponse(reset):
                self._hang_up(reset=reset)
            case RefuseWith(status) | AnswerWith(status):
                self._send(Answer(status))
            case Throttle(retry_after_s):
                self._send(
                    replace(
                        _refusal(HTTPStatus.SERVICE_UNAVAILABLE, "SlowDown"),
                        headers=(("Retry-After", str(retry_after_s)),),
                    )
                )
            case FillDisk():
                self._send(_refusal(HTTPStatus.INSUFFICIENT_STORAGE, "InsufficientStorage"))
            case DenyPermission():
                self._send(_refusal(HTTPStatus.FORBIDDEN, "AccessDenied"))
            case CutResponse(size_bytes):
                self._send(answer, cut=size_bytes)
                self._hang_up(reset=False)
            case DelayRequest() | DelayResponse() | ServeStale() | None:
                self._send(answer)
            case _:
                assert_never(fault)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = do_PATCH = do_OPTIONS = handle_any  # noqa: N815 - the library's names

    def _read_body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", "0")))
        pieces = list[bytes]()
        while size_bytes := int(self.rfile.readline().partition(b";")[0], 16):
            pieces.append(self.rfile.read(size_bytes))
            self.rfile.readline()
        while self.rfile.readline() not in (b"\r\n", b"\n", b""):
            pass  # trailers
        return b"".join(pieces)

    def _ask(self, target: tuple[str, int], body: bytes) -> Answer:
        connection = http.client.HTTPConnection(*target, timeout=SERVER_TIMEOUT_S)
        with contextlib.closing(connection):
            try:
                return self._exchange(connection, body)
            except OSError:
                return UNHEARD

    def _read_stale(self, target: tuple[str, int], body: bytes) -> Answer:
        fresh = self._ask(target, body)
        if self.command != "GET":
            return fresh
        known = bare_etag(self.headers.get("If-None-Match"))
        return cast("FaultProxy", self.server).stale_answer(self.path, fresh, known)

    def _exchange(self, connection: http.client.HTTPConnection, body: bytes) -> Answer:
        connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in _end_to_end_headers(self.headers.items()):
            connection.putheader(name, value)
        if body and "Content-Length" not in self.headers:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body or None)
        with connection.getresponse() as response:
            headers = tuple(_end_to_end_headers(response.getheaders()))
            return Answer(response.status, headers, response.read())

    def _send(self, answer: Answer, cut: int | None = None) -> None:
        self.send_response_only(answer.status)
        for name, value in answer.headers:
            self.send_header(name, value)
        if not any(name.lower() == "content-length" for name, _ in answer.headers):
            self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body[:cut])

    def _hang_up(self, *, reset: bool) -> None:
        self.close_connection = True
        if reset:
            # Closed at once and by its number: the library would say goodbye first.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
            os.close(self.connection.detach())


def _refusal(status: int, code: str) -> Answer:
    """An error response in the form of an S3 server."""
    body = f"<Error><Code>{code}</Code><Message>by a fault proxy</Message></Error>"
    return Answer(status, (("Content-Type", "application/xml"),), body.encode())


def _end_to_end_headers(headers: Iterable[tuple[str, str]]) -> Iterable[tuple[str, str]]:
    return ((name, value) for name, value in headers if name.lower() not in HOP_BY_HOP)
