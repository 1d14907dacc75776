"""A web address that says where objects are: by a redirect to a bucket.

    GET https://example.org/data        302  Location: s3://bucket/prefix?region=us-east-1

Redirects to other web addresses are followed first. What is found is read without credentials,
and asked for once in each process.
"""

import http.client
import ipaddress
import socket
from collections import OrderedDict
from collections.abc import Callable, Sequence
from threading import Lock
from typing import NoReturn, Self
from urllib.error import HTTPError, URLError
from urllib.parse import SplitResult, parse_qs, quote, urljoin, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from frazil.errors import ReadOnlyError, StorageError
from frazil.objectstore.credentials import GcsAnonymousCredentials, S3AnonymousCredentials
from frazil.objectstore.keys import clean_prefix
from frazil.objectstore.protocol import (
    DataList,
    Expectation,
    ReadOnlyStore,
    RemoteSettings,
    SourceStore,
)
from frazil.objectstore.remote.gcs import GcsPlace
from frazil.objectstore.remote.place import HttpPlace, RemotePlace
from frazil.objectstore.remote.remote_store import LazyStore
from frazil.objectstore.remote.s3 import S3Place
from frazil.ranges import Range

_MOST_REDIRECTS = 10
_TIMEOUT_S = 30
_WEB = {"http", "https"}
_MARKED_WEB = {f"{scheme}+{mark}": scheme for scheme in _WEB for mark in ("icechunk", "ic")}


class RedirectedStore(ReadOnlyStore, LazyStore):
    """The objects at the place that a web address redirects to. Read-only."""

    def __init__(self, url: str, settings: RemoteSettings | None = None) -> None:
        super().__init__(settings)
        self._url = url

    def find_place(self) -> RemotePlace:
        return find_target(self._url)

    def with_settings(self, change: Callable[[RemoteSettings], RemoteSettings]) -> Self:
        settings = change(self._settings)
        return self if settings == self._settings else type(self)(self._url, settings)

    def _refuse(self, action: str, target: str) -> NoReturn:
        raise ReadOnlyError(
            f"cannot {action} {target}: what {_redact_url(self._url)} redirects to can only be"
            " read",
            kind="read-only-storage",
        )

    def __repr__(self) -> str:
        return f"RedirectedStore({_redact_url(self._url)!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return RedirectedStore, (self._url, self._settings)


def find_target(url: str) -> RemotePlace:
    """Raises StorageError if there is no redirect to a kind of store that we know."""
    here = url
    for _ in range(_MOST_REDIRECTS):
        location = _request_redirect(here, url)
        here = urljoin(here, location)
        if urlsplit(here).scheme not in _WEB:
            return _place_at(here, url)
        _require_leading(url, here)
    raise _redirect_error(
        f"{_redact_url(url)} redirects more than {_MOST_REDIRECTS} times, or in a circle"
    )


def _require_leading(first: str, target: str) -> None:
    if not may_lead(first, target):
        raise _redirect_error(
            f"{_redact_url(first)} redirects to {_redact_url(target)}, which is not a public"
            " address: only what is on the same host may redirect there"
        )


def _request_redirect(here: str, first: str) -> str:
    request = Request(here, headers={"User-Agent": "frazil"})  # noqa: S310 - http or https: checked
    try:
        with build_opener(Unfollowed).open(request, timeout=_TIMEOUT_S) as answer:
            headers = answer.headers
    except HTTPError as error:
        headers = error.headers
        error.close()
    except (URLError, OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise _redirect_error(f"request to {_redact_url(here)} failed: {reason}") from error
    location = headers.get("Location")
    if not location:
        raise _redirect_error(
            f"the answer to {_redact_url(first)} must be a redirect, and has no location"
        )
    return str(location)


def _place_at(url: str, first: str) -> RemotePlace:
    parts = urlsplit(url)
    endpoint = _query(parts, "endpoint_url")
    if endpoint is not None:
        _require_leading(first, endpoint)
    if (web := _MARKED_WEB.get(parts.scheme)) is not None:
        _require_leading(first, url)
        return HttpPlace(base_url=parts._replace(scheme=web).geturl())
    if parts.scheme not in _KINDS:
        raise _redirect_error(f"unknown scheme: {_redact_url(url)}")
    if not parts.netloc:
        raise _redirect_error(f"no host that names the bucket: {_redact_url(url)}")
    return _KINDS[parts.scheme](parts)


def _s3(parts: SplitResult) -> RemotePlace:
    region = _required_parameter(parts, "region")
    return S3Place(
        bucket=parts.netloc,
        prefix=clean_prefix(parts.path),
        credentials=S3AnonymousCredentials(),
        region=region,
        endpoint_url=_query(parts, "endpoint_url"),
        force_path_style=_query(parts, "endpoint_url") is not None,
        writable=False,
    )


def _r2(parts: SplitResult) -> RemotePlace:
    account = _required_parameter(parts, "account_id")
    if not account.isalnum():  # it becomes a part of a host's name
        raise _redirect_error(f"account_id is {account!r}, expected letters and digits")
    return S3Place(
        bucket=parts.netloc,
        prefix=clean_prefix(parts.path),
        credentials=S3AnonymousCredentials(),
        region=_query(parts, "region") or "auto",
        endpoint_url=f"https://{account}.r2.cloudflarestorage.com",
        force_path_style=True,
        writable=False,
        scheme="r2",
    )


def _tigris(parts: SplitResult) -> RemotePlace:
    return S3Place(
        bucket=parts.netloc,
        prefix=clean_prefix(parts.path),
        credentials=S3AnonymousCredentials(),
        region=_query(parts, "region") or "auto",
        endpoint_url="https://t3.storage.dev",
        writable=False,
        scheme="tigris",
    )


def _gcs(parts: SplitResult) -> RemotePlace:
    return GcsPlace(
        bucket=parts.netloc,
        prefix=clean_prefix(parts.path),
        credentials=GcsAnonymousCredentials(),
    )


_KINDS = {"s3": _s3, "r2": _r2, "tigris": _tigris, "gs": _gcs, "gcs": _gcs}


def _query(parts: SplitResult, name: str) -> str | None:
    return next(iter(parse_qs(parts.query).get(name, [])), None)


def _required_parameter(parts: SplitResult, name: str) -> str:
    found = _query(parts, name)
    if found is None:
        raise _redirect_error(
            f"there must be a parameter {name!r} in the query: {_redact_url(parts.geturl())}"
        )
    return found


def _redirect_error(message: str) -> StorageError:
    return StorageError(f"Redirect Storage error: {message}", kind="bad-redirect")


def _redact_url(url: str) -> str:
    """Without a name and password, or a query."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


# Allowed redirects
#
# Addresses inside a network, or of this machine, are often open to every program there. A URL that
# a stranger chose must not send us to one: `http://169.254.169.254/` serves the credentials of a
# virtual machine. Host names are resolved first, so that other spellings of a number and names of
# internal hosts count as what they are. A name that resolves differently later is not detected.


type Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


def may_lead(origin: str, target: str) -> bool:
    """True if a redirect from `origin` to `target`, both URLs, may be followed."""
    source, sink = urlsplit(origin).hostname or "", urlsplit(target).hostname or ""
    if not sink or source == sink:
        return bool(sink)
    found = addresses_of(sink)
    if all(map(_is_public, found)):
        return True
    return found <= addresses_of(source)


def addresses_of(host: str) -> set[Address]:
    """All addresses of a host; none for an unknown name, to which no request can be made."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return set()
    return {
        _embedded_ipv4(ipaddress.ip_address(str(each[4][0]).partition("%")[0])) for each in found
    }


def _embedded_ipv4(address: Address) -> Address:
    """The address of version 4 that one of version 6 stands for, if it does."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address


def _is_public(address: Address) -> bool:
    return address.is_global and not address.is_multicast


# Redirects of files on web servers
#
# The HTTP client follows redirects without asking. So the first read of a file requests one byte
# without following, and checks the target of each redirect. This costs one small request per file.


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
    """Raises StorageError if a redirect points to a host that is not public."""
    here = url
    for _ in range(_MOST_REDIRECTS):
        target = _target(here, headers)
        if target is None:
            return
        if not may_lead(url, target) or not target.startswith(("http://", "https://")):
            raise StorageError(
                f"{url} redirects to {target.partition('?')[0]}, which is not a public"
                " address: only what is on the same host may redirect there",
                kind="bad-redirect",
            )
        here = target
    raise StorageError(f"{url} redirects more than {_MOST_REDIRECTS} times", kind="bad-redirect")


def _target(url: str, headers: dict[str, str]) -> str | None:
    """The target of a redirect; None if the response is the file, or an error."""
    request = Request(url, headers={"User-Agent": "frazil", **headers, "Range": "bytes=0-0"})  # noqa: S310 - http or https
    try:
        with build_opener(Unfollowed).open(request, timeout=_TIMEOUT_S):
            return None
    except HTTPError as error:
        location = error.headers.get("Location")
        error.close()
        return urljoin(url, location) if location and 300 <= error.code < 400 else None
