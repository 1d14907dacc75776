"""Files over HTTP, as a web server gives them: ranges, ETags, times, conditions, redirects.

Python's own server knows no ranges. Requests are remembered, so that tests can count them.
"""

import re
from dataclasses import dataclass
from email.utils import formatdate, parsedate_to_datetime
from http import HTTPStatus
from pathlib import Path
from typing import cast
from urllib.parse import unquote, urlsplit

from frazil.testing.loopback import LoopbackServer, QuietHandler

_RANGE = re.compile(r"bytes=(\d*)-(\d*)")


@dataclass(frozen=True, slots=True)
class Asked:
    method: str
    path: str
    range: str | None
    status: int


class HttpServer(LoopbackServer):
    """The files below `root`. `redirects`: from a path to a path here, or to any address."""

    def __init__(self, root: Path) -> None:
        super().__init__(_Handler)
        self.root = root
        self.redirects: dict[str, str] = {}
        self.asked: list[Asked] = []

    def count(self, method: str | None = None, path: str = "") -> int:
        return sum(method in (None, one.method) and path in one.path for one in list(self.asked))


@dataclass(frozen=True, slots=True)
class File:
    """A file as it is now; its ETag changes whenever its content can have changed."""

    path: Path
    size_bytes: int
    modified_ns: int

    @property
    def etag(self) -> str:
        return f'"{self.modified_ns:x}-{self.size_bytes:x}"'

    @property
    def modified(self) -> str:
        return formatdate(self.modified_ns // 10**9, usegmt=True)


class _Handler(QuietHandler):
    def handle_any(self) -> None:
        server = cast("HttpServer", self.server)
        path = unquote(urlsplit(self.path).path)
        if path in server.redirects:
            self._answer(HTTPStatus.FOUND, {"Location": server.redirects[path]})
        elif (file := find_file(server.root, path)) is None:
            self._answer(HTTPStatus.NOT_FOUND, {})
        elif (refusal := self._refusal(file)) is not None:
            self._answer(refusal, {"ETag": file.etag})
        else:
            self._send_file(file)

    do_GET = do_HEAD = handle_any  # noqa: N815 - the library's names

    def _refusal(self, file: File) -> HTTPStatus | None:
        """What the conditions of the request make of it (RFC 9110, section 13.2.2)."""
        wanted = self.headers.get
        if (match := wanted("If-Match")) is not None:
            if match != "*" and file.etag not in re.split(r"\s*,\s*", match):
                return HTTPStatus.PRECONDITION_FAILED
        elif (before := wanted("If-Unmodified-Since")) is not None and is_after(file, before):
            return HTTPStatus.PRECONDITION_FAILED
        if (none := wanted("If-None-Match")) is not None:
            return HTTPStatus.NOT_MODIFIED if none in ("*", file.etag) else None
        since = wanted("If-Modified-Since")
        return HTTPStatus.NOT_MODIFIED if since is not None and not is_after(file, since) else None

    def _send_file(self, file: File) -> None:
        headers = {"ETag": file.etag, "Last-Modified": file.modified, "Accept-Ranges": "bytes"}
        part = find_part(self.headers.get("Range"), file.size_bytes)
        if part is None:
            self._answer(HTTPStatus.OK, headers, file.path.read_bytes())
        elif part.start >= file.size_bytes:
            headers["Content-Range"] = f"bytes */{file.size_bytes}"
            self._answer(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, headers)
        else:
            headers["Content-Range"] = f"bytes {part.start}-{part.stop - 1}/{file.size_bytes}"
            with file.path.open("rb") as opened:
                opened.seek(part.start)
                self._answer(HTTPStatus.PARTIAL_CONTENT, headers, opened.read(len(part)))

    def _answer(self, status: HTTPStatus, headers: dict[str, str], body: bytes = b"") -> None:
        server = cast("HttpServer", self.server)
        server.asked.append(Asked(self.command, self.path, self.headers.get("Range"), status))
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status != HTTPStatus.NOT_MODIFIED:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def find_file(root: Path, path: str) -> File | None:
    found = (root / path.lstrip("/")).resolve()
    if not found.is_relative_to(root.resolve()) or not found.is_file():
        return None
    status = found.stat()
    return File(found, status.st_size, status.st_mtime_ns)


def find_part(header: str | None, size_bytes: int) -> range | None:
    """The bytes that a Range header asks for; None for all of them."""
    match = _RANGE.fullmatch(header or "")
    if match is None or match[0] == "bytes=-":
        return None
    first, last = match[1], match[2]
    if not first:
        return range(max(0, size_bytes - int(last)), size_bytes)
    return range(int(first), min(size_bytes, int(last) + 1) if last else size_bytes)


def is_after(file: File, text: str) -> bool:
    return file.modified_ns // 10**9 > parsedate_to_datetime(text).timestamp()
