"""The explorer, listening."""

import asyncio
import ipaddress
import mimetypes
import socket
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import closing, suppress
from functools import partial
from http import HTTPStatus
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from frazil.api.repository import Repository
from frazil.engine.repository import Repository as Engine
from frazil.errors import InvalidInputError, NotFoundError
from frazil.objectstore.local import LocalStore
from frazil.web.endpoints import ENDPOINTS, Endpoint
from frazil.web.explored import DEFAULT, Explored
from frazil.web.http import Asked, error_answer, json_answer, page_answer
from frazil.web.overview import summary
from frazil.web.queries import INSTALL, MAX_QUERY, Query, SparkQueries, has_spark

# Access control: permitted hosts and requests, and headers for browsers.
#
# Only the names of this server are answered: another site's name that resolves to this address (DNS
# rebinding) is refused. Pages of other sites may link to the pages here, but not ask for data: what
# is under /api may take the server long, and any page that is open in the same browser could ask.
# Pages may load nothing but what this server has, and run no script but its
# own; they cannot be framed, nor can other sites embed or read what is here.

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
    " require-trusted-types-for 'script'; trusted-types 'none'"  # no innerHTML, even by mistake
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
LOOPBACK = ("127.0.0.1", "::1", "localhost")
METHODS = ("GET", "HEAD")
API = "/api/"
REPOSITORIES = "repo"  # first part of the path of one repository among several
_OWN_SITE = ("same-origin", "none")  # of Sec-Fetch-Site; none: typed, or a bookmark


class Guard:
    """An ASGI application that lets through what may be asked, and adds HEADERS to all answers."""

    def __init__(self, inner: ASGIApp, *, hosts: Collection[str], any_address: bool) -> None:
        """Accepts every IP address as a host name with `any_address`, for a server that listens on
        all.
        """
        self._inner = inner
        self._hosts = frozenset(host.lower() for host in hosts if host)
        self._any_address = any_address

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        refusal = self._refusal(scope)
        await (refusal or self._inner)(scope, receive, with_headers)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if not self._is_ours(headers.get("host", "")):
            text = "this server does not go by that name (frazil serve --allow-host)"
            return _refuse(scope, text, "host", HTTPStatus.MISDIRECTED_REQUEST)
        if scope["method"] not in METHODS:
            text = "the explorer only reads"
            answer = _refuse(scope, text, "method", HTTPStatus.METHOD_NOT_ALLOWED)
            answer.headers["Allow"] = ", ".join(METHODS)
            return answer
        if is_api(scope["path"]) and _is_from_elsewhere(headers):
            text = "pages of other sites may not ask this server for data"
            return _refuse(scope, text, "origin", HTTPStatus.FORBIDDEN)
        return None

    def _is_ours(self, header: str) -> bool:
        host = _without_port(header).lower()
        if host in self._hosts:
            return True
        try:
            ipaddress.ip_address(host)
        except ValueError:
            return False
        return self._any_address


def is_api(path: str) -> bool:
    """True for requests for data, of the only repository or of one among several."""
    parts = path.split("/", 4)
    return path.startswith(API) or (parts[1:2] == [REPOSITORIES] and parts[3:4] == ["api"])


def _refuse(scope: Scope, message: str, kind: str, status: HTTPStatus) -> Response:
    """A page for browsers that ask for one, else JSON."""
    accepts = Headers(scope=scope).get("accept", "")
    if "text/html" in accepts and not is_api(scope["path"]):
        return page_answer(message, status)
    return json_answer({"error": message, "kind": kind}, status)


def _is_from_elsewhere(headers: Headers) -> bool:
    """True if a browser says that another site's page asks. Programs say nothing of the kind.

    Browsers send Sec-Fetch-Site to this machine and over HTTPS; else Origin or Referer may tell.
    """
    site = headers.get("sec-fetch-site")
    if site is not None:  # pages cannot set it
        return site.lower() not in _OWN_SITE
    pages = (headers.get("origin"), headers.get("referer"))
    host = headers.get("host", "").lower()
    return any(_host_of(page) != host for page in pages if page is not None)


def _host_of(page: str) -> str | None:
    """Host and port of a URL as in the header Host; None for `null` and what is no URL."""
    try:
        return urlsplit(page).netloc.lower() or None
    except ValueError:
        return None


def _without_port(header: str) -> str:
    """`[::1]:8000` is ::1, `localhost:8000` is localhost."""
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0]


# The explorer as an ASGI application: pages, their parts, and the API they ask.

STATIC = Path(__file__).with_name("static")
PAGES = ("/", "/commits", "/browse", "/compare", "/sql", "/operations", "/storage", "/search")
TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}

type Explorable = Repository | Engine
type Served = Explorable | Mapping[str, Explorable]


def create_app(
    repository: Served,
    *,
    name: str = "repository",
    hosts: Collection[str] = LOOPBACK,
    any_address: bool = False,
    queries: SparkQueries | None = None,
) -> ASGIApp:
    """Answers only to `hosts`, and with `any_address` to every IP address.

    Several repositories, by name, are below /repo/NAME, and the first page lists them. The
    caller closes `queries`.
    """
    queries = queries or SparkQueries()
    files = _static_files()
    routes = [Route(f"/static/{each}", partial(_file, *found)) for each, found in files.items()]
    page = partial(_file, *files["index.html"])
    if isinstance(repository, Mapping):
        explored = {key: Explored(_engine(each), key) for key, each in repository.items()}
        routes += _routes_of(explored, f"/{REPOSITORIES}/{{name}}", page, queries)
        listed = partial(_list_repositories, explored, name)
        data, media_type = files["index.html"]
        first = partial(_file, data.replace(b"<html ", b"<html data-several ", 1), media_type)
        routes += [Route("/", first), Route("/api/repositories", listed)]
    else:
        routes += _routes_of({"": Explored(_engine(repository), name)}, "", page, queries)
    app = Starlette(routes=routes, exception_handlers={HTTPStatus.NOT_FOUND: _not_found})
    return Guard(app, hosts=hosts, any_address=any_address)


def _engine(repository: Explorable) -> Engine:
    return repository if isinstance(repository, Engine) else repository.engine


def _routes_of(
    explored: Mapping[str, Explored],
    prefix: str,
    page: Callable[..., Awaitable[Response]],
    queries: SparkQueries,
) -> list[Route]:
    """Pages and API of the repositories; those that are not there have neither."""

    async def shown(request: Request) -> Response:
        if request.path_params.get("name", "") not in explored:
            return await _not_found(request)
        return await page(request)

    return [
        *(_api_route(explored, prefix, path, each) for path, each in ENDPOINTS.items()),
        _query_route(explored, prefix, queries),
        *(Route(prefix + each, shown) for each in PAGES),
    ]


async def _list_repositories(
    explored: Mapping[str, Explored], name: str, request: Request
) -> Response:
    del request
    return await run_in_threadpool(_repositories, explored, name)


def _repositories(explored: Mapping[str, Explored], name: str) -> Response:
    return json_answer(
        {"name": name, "repositories": [summary(each) for each in explored.values()]}
    )


def open_folder(folder: Path) -> dict[str, Engine]:
    """Opens every repository directly below a folder, by name; what is none is left out."""
    found: dict[str, Engine] = {}
    for path in sorted(each for each in folder.iterdir() if each.is_dir()):
        with suppress(NotFoundError):
            found[path.name] = Engine.open(LocalStore(path))
    return found


def _static_files() -> dict[str, tuple[bytes, str]]:
    """Loads all static files: no path that a client sends is ever opened."""
    return {
        path.relative_to(STATIC).as_posix(): (path.read_bytes(), _type_of(path))
        for path in sorted(STATIC.rglob("*"))
        if path.is_file()
    }


def _type_of(path: Path) -> str:
    # Not left to the machine: some registries have other types for modules, which do not load.
    return TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0] or "text/plain"


async def _file(data: bytes, media_type: str, request: Request) -> Response:
    del request
    return Response(data, media_type=media_type)


async def _not_found(request: Request, error: Exception | None = None) -> Response:
    del error
    path = request.url.path
    return _refuse(request.scope, f"there is nothing at {path}", "not-found", HTTPStatus.NOT_FOUND)


def _api_route(
    explored: Mapping[str, Explored], prefix: str, path: str, endpoint: Endpoint
) -> Route:
    async def answer(request: Request) -> Response:
        one = explored.get(request.path_params.get("name", ""))
        if one is None:
            return await _not_found(request)
        return await run_in_threadpool(_answer_or_error, one, endpoint, Asked(request.query_params))

    return Route(f"{prefix}/api/{path}", answer)


def _query_route(explored: Mapping[str, Explored], prefix: str, queries: SparkQueries) -> Route:
    """Runs a query until it has ended, or until the browser hangs up: so it is cancelled there."""

    async def answer(request: Request) -> Response:
        one = explored.get(request.path_params.get("name", ""))
        if one is None:
            return await _not_found(request)
        gone = asyncio.create_task(_disconnected(request))
        try:
            query = await run_in_threadpool(_query, one, Asked(request.query_params))
            return await run_in_threadpool(json_answer, await queries.run(query, gone))
        except Exception as error:  # noqa: BLE001 -- as above
            return error_answer(error)
        finally:
            gone.cancel()

    return Route(f"{prefix}/api/{SQL}", answer, methods=["GET"])


SQL = "sql"


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _query(explored: Explored, asked: Asked) -> Query:
    if not has_spark():
        raise InvalidInputError(f"SQL needs Spark: {INSTALL}", kind="no-spark")
    text = asked.text("q").strip().removesuffix(";")
    if not text or len(text) > MAX_QUERY:
        raise InvalidInputError(f"a query has 1 to {MAX_QUERY} letters, this has {len(text)}")
    return Query(explored, explored.snapshot(asked.text("at", DEFAULT)), text)


def _answer_or_error(explored: Explored, endpoint: Endpoint, asked: Asked) -> Response:
    try:
        return endpoint(explored, asked)
    except Exception as error:  # noqa: BLE001 -- the last door: codecs raise what they like
        return error_answer(error)


EVERYWHERE = ("0.0.0.0", "::", "")  # noqa: S104 -- to be recognised, not to be listened on


class Server:
    """Bound on creation, so that its URL is known; answers while `run`, or in a `with` block."""

    def __init__(
        self,
        repository: Served,
        *,
        name: str = "repository",
        host: str = "127.0.0.1",
        port: int = 0,
        allowed_hosts: Collection[str] = (),
    ) -> None:
        """Port 0 is a free one. Raises OSError if the port is taken. See create_app."""
        self._queries = SparkQueries()
        self.app: ASGIApp = create_app(
            repository,
            name=name,
            hosts={*LOOPBACK, host, *allowed_hosts},
            any_address=host in EVERYWHERE,
            queries=self._queries,
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
        """URL to open on this machine."""
        host = "127.0.0.1" if self.host in EVERYWHERE else self.host
        return f"http://[{host}]:{self.port}/" if ":" in host else f"http://{host}:{self.port}/"

    def run(self) -> None:
        """Until the process is interrupted; requests that are being answered are finished."""
        with closing(self._queries), self._socket, suppress(KeyboardInterrupt):
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
