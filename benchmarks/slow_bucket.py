"""A bucket that takes its time: S3 as far as both engines use it, in a process of its own.

    python -m benchmarks.slow_bucket SECONDS [FOLDER]

Prints its port, and serves until its input ends. Objects are in memory, and what is below FOLDER
can be read, too. Every answer waits for so long; any number of requests may wait at once. So what
counts is how many requests an engine makes one after another.
"""

import asyncio
import os
import re
import subprocess
import sys
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import formatdate
from http import HTTPStatus
from itertools import takewhile
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape, unescape

HOST = "127.0.0.1"
BUCKET = "bench"
LATENCY_S = 0.02
PAGE = 1000

type Headers = dict[str, str]
type Answer = tuple[HTTPStatus, Headers, bytes]


@dataclass(frozen=True, slots=True)
class Stored:
    data: bytes
    etag: str  # a number of its own: hashing large objects would take longer than the latency


@dataclass(slots=True)
class Bucket:
    """Says of every object that it was written just now: commits compare the clocks."""

    latency_s: float
    folder: Path | None = None
    objects: dict[str, Stored] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)  # of the objects, sorted: a listing is cheap
    puts: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                method, target, _ = line.decode().split(" ", 2)
                headers = await _read_headers(reader)
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                await asyncio.sleep(self.latency_s)
                status, answered, content = self.answer(method, target, headers, body)
                _write(writer, status, answered, b"" if method == "HEAD" else content)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    def answer(self, method: str, target: str, headers: Headers, body: bytes) -> Answer:
        where = urlsplit(target)
        key = unquote(where.path).removeprefix(f"/{BUCKET}").removeprefix("/")
        query = parse_qs(where.query, keep_blank_values=True)
        match method:
            case "GET" if not key:
                return self._list(query)
            case "GET" | "HEAD":
                return self._get(key, headers)
            case "PUT":
                return self._put(key, headers, body)
            case "DELETE":
                self._remove(key)
                return HTTPStatus.NO_CONTENT, {}, b""
            case "POST" if "delete" in query:
                names = re.findall("<Key>(.*?)</Key>", body.decode())
                for name in names:
                    self._remove(unescape(name))
                gone = "".join(f"<Deleted><Key>{name}</Key></Deleted>" for name in names)
                return HTTPStatus.OK, {}, f"<DeleteResult>{gone}</DeleteResult>".encode()
            case _:
                return HTTPStatus.NOT_IMPLEMENTED, {}, b""

    def _get(self, key: str, headers: Headers) -> Answer:
        stored = self.objects.get(key) or self._file(key)
        if stored is None:
            return HTTPStatus.NOT_FOUND, {}, b"<Error><Code>NoSuchKey</Code></Error>"
        found = stored.data
        about = {"etag": stored.etag, "last-modified": formatdate(usegmt=True)}
        if headers.get("if-none-match", "").strip('"') == stored.etag.strip('"'):
            return HTTPStatus.NOT_MODIFIED, about, b""
        if (wanted := headers.get("range")) is None:
            return HTTPStatus.OK, about | {"content-length": str(len(found))}, found
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        start = int(first) if first else max(0, len(found) - int(last))
        stop = min(int(last) + 1 if first and last else len(found), len(found))
        about["content-range"] = f"bytes {start}-{stop - 1}/{len(found)}"
        about["content-length"] = str(stop - start)
        return HTTPStatus.PARTIAL_CONTENT, about, found[start:stop]

    def _file(self, key: str) -> Stored | None:
        path = None if self.folder is None else self.folder / key
        return Stored(path.read_bytes(), '"0"') if path is not None and path.is_file() else None

    def _put(self, key: str, headers: Headers, body: bytes) -> Answer:
        there = self.objects.get(key)
        is_refused = headers.get("if-none-match") == "*" and there is not None
        if (expected := headers.get("if-match")) is not None:
            is_refused = there is None or there.etag.strip('"') != expected.strip('"')
        if is_refused:
            code = b"<Error><Code>PreconditionFailed</Code></Error>"
            return HTTPStatus.PRECONDITION_FAILED, {}, code
        if (source := headers.get("x-amz-copy-source")) is not None:
            body = self.objects[unquote(source).removeprefix("/").removeprefix(f"{BUCKET}/")].data
            etag = escape(self._store(key, body))
            made = f"<CopyObjectResult><ETag>{etag}</ETag></CopyObjectResult>"
            return HTTPStatus.OK, {}, made.encode()
        return HTTPStatus.OK, {"etag": self._store(key, body)}, b""

    def _store(self, key: str, data: bytes) -> str:
        """Its etag."""
        self.puts += 1
        if key not in self.objects:
            insort(self.names, key)
        self.objects[key] = Stored(data, f'"{self.puts}"')
        return self.objects[key].etag

    def _remove(self, key: str) -> None:
        if self.objects.pop(key, None) is not None:
            del self.names[bisect_left(self.names, key)]

    def _list(self, query: dict[str, list[str]]) -> Answer:
        prefix = query.get("prefix", [""])[0]
        after = query.get("continuation-token", query.get("start-after", [""]))[0]
        first = max(bisect_left(self.names, prefix), bisect_right(self.names, after))
        found = self.names[first : first + PAGE + 1]
        names = list(takewhile(lambda name: name.startswith(prefix), found))
        page = names[:PAGE]
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
        listed = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(self.objects[key].data)}</Size>"
            f"<LastModified>{now}</LastModified><ETag>x</ETag></Contents>"
            for key in page
        )
        more = f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>" if page else ""
        is_cut = str(len(names) > PAGE).lower()
        body = (
            f"<ListBucketResult><IsTruncated>{is_cut}</IsTruncated><KeyCount>{len(page)}</KeyCount>"
            f"{more if len(names) > PAGE else ''}{listed}</ListBucketResult>"
        )
        return HTTPStatus.OK, {"content-type": "application/xml"}, body.encode()


async def _read_headers(reader: asyncio.StreamReader) -> Headers:
    headers = {}
    while (line := await reader.readline()).strip():
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.lower()] = value.strip()
    return headers


def _write(
    writer: asyncio.StreamWriter, status: HTTPStatus, headers: Headers, content: bytes
) -> None:
    headers = {"content-length": str(len(content)), **headers}
    lines = [f"HTTP/1.1 {status.value} {status.phrase}", *(f"{k}: {v}" for k, v in headers.items())]
    writer.write("\r\n".join([*lines, "", ""]).encode() + content)


async def serve(latency_s: float, folder: Path | None) -> None:
    server = await asyncio.start_server(Bucket(latency_s, folder).serve, HOST, 0, limit=1 << 20)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    os._exit(0)  # does not wait for open connections


@contextmanager
def slow_bucket(latency_s: float = LATENCY_S, folder: Path | None = None) -> Iterator[int]:
    """The port of one."""
    command = [sys.executable, "-m", "benchmarks.slow_bucket", str(latency_s)]
    command += [] if folder is None else [str(folder)]
    root = Path(__file__).parents[1]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root
    ) as process:
        assert process.stdin
        assert process.stdout
        try:
            yield int(process.stdout.readline())
        finally:
            process.stdin.close()


def bucket_storage(engine: ModuleType, port: int, prefix: str = "repo") -> Any:
    return engine.s3_storage(
        bucket=BUCKET,
        prefix=prefix,
        region="us-east-1",
        endpoint_url=f"http://{HOST}:{port}",
        allow_http=True,
        force_path_style=True,
        access_key_id="key",
        secret_access_key="secret",  # noqa: S106 -- of a server that knows none
    )


if __name__ == "__main__":
    asyncio.run(serve(float(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None))
