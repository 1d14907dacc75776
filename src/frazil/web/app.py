"""The explorer as an ASGI application: pages, their parts, and the API they ask."""

import mimetypes
from collections.abc import Collection
from functools import partial
from http import HTTPStatus
from pathlib import Path

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from frazil.api.repository import Repository
from frazil.errors import NotFoundError
from frazil.repo.repository import Repository as Engine
from frazil.web.answers import error_answer
from frazil.web.asking import Asked
from frazil.web.endpoints import ENDPOINTS, Endpoint
from frazil.web.explored import Explored
from frazil.web.guard import LOOPBACK, Guard

STATIC = Path(__file__).with_name("static")
PAGES = ("/", "/commits", "/browse", "/compare", "/operations", "/storage", "/search")
TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


def create_app(
    repository: Repository | Engine,
    *,
    name: str = "repository",
    hosts: Collection[str] = LOOPBACK,
    any_address: bool = False,
) -> ASGIApp:
    """Answers only to `hosts`, and with `any_address` to every IP address."""
    engine = repository if isinstance(repository, Engine) else repository.engine
    explored = Explored(engine, name)
    files = _static_files()
    routes = [
        *(_api_route(explored, path, endpoint) for path, endpoint in ENDPOINTS.items()),
        *(Route(page, partial(_file, *files["index.html"])) for page in PAGES),
        *(Route(f"/static/{each}", partial(_file, *found)) for each, found in files.items()),
    ]
    app = Starlette(routes=routes, exception_handlers={HTTPStatus.NOT_FOUND: _not_found})
    return Guard(app, hosts=hosts, any_address=any_address)


def _static_files() -> dict[str, tuple[bytes, str]]:
    """What is served, all of it: no path that a client sends is ever opened."""
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


async def _not_found(request: Request, error: Exception) -> Response:
    del error
    return error_answer(NotFoundError(f"there is nothing at {request.url.path}"))


def _api_route(explored: Explored, path: str, endpoint: Endpoint) -> Route:
    async def answer(request: Request) -> Response:
        asked = Asked(request.query_params)
        return await run_in_threadpool(_answer_or_error, explored, endpoint, asked)

    return Route(f"/api/{path}", answer)


def _answer_or_error(explored: Explored, endpoint: Endpoint, asked: Asked) -> Response:
    try:
        return endpoint(explored, asked)
    except Exception as error:  # noqa: BLE001 -- the last door: codecs raise what they like
        return error_answer(error)
