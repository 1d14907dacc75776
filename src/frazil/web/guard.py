"""Who may ask, what, and what a browser may do with the answer.

Only the names of this server are answered: another site's name that resolves to this address (DNS
rebinding) is refused. Pages may load nothing but what this server has, and run no script but its
own; they cannot be framed, nor can other sites embed or read what is here.
"""

import ipaddress
from collections.abc import Collection
from http import HTTPStatus

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
        if not self._is_ours(Headers(scope=scope).get("host", "")):
            text = "this server does not go by that name (frazil serve --allow-host)"
            return json_answer({"error": text, "kind": "host"}, HTTPStatus.MISDIRECTED_REQUEST)
        if scope["method"] not in METHODS:
            answer = json_answer(
                {"error": "the explorer only reads", "kind": "method"},
                HTTPStatus.METHOD_NOT_ALLOWED,
            )
            answer.headers["Allow"] = ", ".join(METHODS)
            return answer
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


def _without_port(header: str) -> str:
    """`[::1]:8000` is ::1, `localhost:8000` is localhost."""
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0]
