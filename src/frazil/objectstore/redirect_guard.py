"""Files on web servers, read only if no redirect leads to where nobody may be sent.

The client follows redirects, and has no say in where to. So the first time that a file is wanted,
one byte of it is asked for without following; what the answer leads to is looked at, step by step.
It costs one small request for each file.
"""

import http.client
from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urljoin
from urllib.request import HTTPRedirectHandler, Request, build_opener

from frazil.errors import StorageError
from frazil.objectstore.protocol import DataList
from frazil.objectstore.source import Expectation, SourceStore
from frazil.objectstore.web_addresses import may_lead
from frazil.ranges import Range

_MOST_REDIRECTS = 10
_TIMEOUT_S = 30
_REMEMBERED = 10_000
_SAFE = "/!$&'()*+,;=:@-._~"


class Unfollowed(HTTPRedirectHandler):
    def redirect_request(self, *_args: object, **_options: object) -> None:
        """Redirects arrive as HTTPError."""


class GuardedSource:
    """`inner`, whose files are below `base_url`."""

    def __init__(
        self, inner: SourceStore, base_url: str, headers: Sequence[tuple[str, str]] = ()
    ) -> None:
        self.inner = inner
        self._base_url = base_url.rstrip("/")
        self._headers = dict(headers)
        self._lock = Lock()
        self._checked: OrderedDict[str, None] = OrderedDict()

    def read(
        self, key: str, ranges: Sequence[Range], *, expected: Expectation | None = None
    ) -> DataList:
        self._check(key)
        return self.inner.read(key, ranges, expected=expected)

    def size_bytes(self, key: str) -> int:
        self._check(key)
        return self.inner.size_bytes(key)

    def __repr__(self) -> str:
        return repr(self.inner)

    def _check(self, key: str) -> None:
        with self._lock:
            if key in self._checked:
                return
        url = f"{self._base_url}/{quote(key, safe=_SAFE)}"
        try:
            require_staying(url, self._headers)
        except (URLError, OSError, http.client.HTTPException, ValueError):
            return  # the request itself will fail too, be tried again, and say why
        with self._lock:
            self._checked[key] = None
            if len(self._checked) > _REMEMBERED:
                self._checked.popitem(last=False)


def require_staying(url: str, headers: dict[str, str]) -> None:
    """Raises StorageError if a redirect leads to a host that is not for everybody."""
    here = url
    for _ in range(_MOST_REDIRECTS):
        target = _target(here, headers)
        if target is None:
            return
        if not may_lead(url, target) or not target.startswith(("http://", "https://")):
            raise StorageError(
                f"{url} redirects to {target.partition('?')[0]}, which is not an address for"
                " everybody: only what is on the same host may lead there",
                kind="bad-redirect",
            )
        here = target
    raise StorageError(f"{url} redirects more than {_MOST_REDIRECTS} times", kind="bad-redirect")


def _target(url: str, headers: dict[str, str]) -> str | None:
    """Where the answer leads to; None if it is the file, or an error."""
    request = Request(url, headers={"User-Agent": "frazil", **headers, "Range": "bytes=0-0"})  # noqa: S310 - http or https
    try:
        with build_opener(Unfollowed).open(request, timeout=_TIMEOUT_S):
            return None
    except HTTPError as error:
        location = error.headers.get("Location")
        error.close()
        return urljoin(url, location) if location and 300 <= error.code < 400 else None
