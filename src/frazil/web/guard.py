"""Who may ask, what, and what a browser may do with the answer.

Only the names of this server are answered: another site's name that resolves to this address (DNS
rebinding) is refused. Pages of other sites may link to the pages here, but not ask for data: what
is under /api may take the server long, and any page that is open in the same browser could ask.
Pages may load nothing but what this server has, and run no script but its
own; they cannot be framed, nor can other sites embed or read what is here.
"""

import ipaddress
from collections.abc import Collection
from http import HTTPStatus
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from frazil.web.answers import json_answer

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
_OWN_SITE = ("same-origin", "none")  # of Sec-Fetch-Site; none: typed, or a bookmark


class Guard:
    """An ASGI application that lets through what may be asked, and adds HEADERS to all answers."""

    def __init__(self, inner: ASGIApp, *, hosts: Collection[str], any_address: bool) -> None:
        """With `any_address` every IP address is a name of this server, which listens on all."""
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
            return json_answer({"error": text, "kind": "host"}, HTTPStatus.MISDIRECTED_REQUEST)
        if scope["method"] not in METHODS:
            answer = json_answer(
                {"error": "the explorer only reads", "kind": "method"},
                HTTPStatus.METHOD_NOT_ALLOWED,
            )
            answer.headers["Allow"] = ", ".join(METHODS)
            return answer
        if scope["path"].startswith(API) and _is_from_elsewhere(headers):
            text = "pages of other sites may not ask this server for data"
            return json_answer({"error": text, "kind": "origin"}, HTTPStatus.FORBIDDEN)
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
