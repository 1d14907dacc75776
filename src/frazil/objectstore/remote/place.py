"""Places of remote stores: values that know how to connect, and what the server can do."""

import re
from collections.abc import Callable
from dataclasses import field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from frazil.dataclass import dataclass
from frazil.errors import (
    InvalidInputError,
)
from frazil.objectstore.keys import decode_name, encode_key, require_key
from frazil.objectstore.protocol import Place, RemoteSettings
from frazil.objectstore.remote.remote_requests import Role, client_options, retry_options

if TYPE_CHECKING:
    from obstore.store import ObjectStore as Client

type Headers = tuple[tuple[str, str], ...]

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_EARLY = timedelta(minutes=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFeatures:
    """Features in which servers differ."""

    writable: bool = True
    # What tells versions apart: a hash that the store computes, or a number that it counts up.
    counts_generations: bool = False
    # Some servers compare ETags with the quotes around them, some without.
    quotes_etags: bool = False
    # Equal ones mean equal content. Web servers make them up from times in whole seconds.
    exact_etags: bool = True
    # Percent-encoded as in a local directory: the reference uses another client there.
    encodes_names: bool = False
    suffix_ranges: bool = True
    # Many in one request, which does not tell which of them were there.
    bulk_deletes: bool = False
    lists_by_prefix: bool = True
    # In ascending order of names, so that a listing can begin and end anywhere.
    lists_in_order: bool = False
    keeps_metadata: bool = True
    # An object may be copied to its own name, by which it gets another time and nothing else.
    copies_onto_itself: bool = False


class RemotePlace(Place, Protocol):
    """A place and how to connect to it. Picklable."""

    @property
    def features(self) -> ServerFeatures: ...

    @property
    def is_self_contained(self) -> bool:
        """True if a client depends on nothing else: no environment, file or callback."""
        ...

    def connect(self, role: Role, settings: RemoteSettings) -> "Client":
        """A client of obstore for the whole bucket."""
        ...


def join_prefix(root: str, prefix: str) -> str:
    return f"{root}/{prefix}" if prefix else root


def path_of(place: RemotePlace, key: str) -> str:
    """The name of an object in the bucket. Raises InvalidInputError."""
    require_key(key)
    whole = f"{place.prefix}/{key}" if place.prefix else key
    if place.features.encodes_names:
        return encode_key(whole)
    if _CONTROL.search(whole):
        raise InvalidInputError(
            f"not a key here: {key!r} has control characters, which no request to"
            f" {place.location} could carry"
        )
    return whole


def start_of_paths(place: RemotePlace) -> str:
    """The common beginning of the names of all objects in the bucket."""
    return path_of(place, "x")[:-1]


def key_after(start: str, features: ServerFeatures, path: str) -> str | None:
    """The key of an object by its name in the bucket; None if it is not one of this store's."""
    rest = path[len(start) :]
    if not path.startswith(start) or not rest:
        return None
    if not features.encodes_names:
        return rest
    segments = [decode_name(segment) for segment in rest.split("/")]
    return None if None in segments else "/".join(filter(None, segments))


def with_time_zone(moment: datetime | None) -> datetime | None:
    """The moment with a time zone: UTC if it has none."""
    return moment.replace(tzinfo=UTC) if moment is not None and moment.tzinfo is None else moment


class RefreshedCredentials[T]:
    """A function that obstore calls again when the credentials are about to expire."""

    def __init__(
        self,
        fetch: Callable[[], T],
        current: T | None,
        convert: Callable[[T], dict[str, Any]],
    ) -> None:
        self._fetch = fetch
        self._current = current
        self._convert = convert

    def __call__(self) -> dict[str, Any]:
        current, self._current = self._current, None
        now = datetime.now(UTC)
        if current is not None:
            given = self._convert(current)
            if given["expires_at"] is None or given["expires_at"] > now:
                return _expire_early(given, now)
        return _expire_early(self._convert(self._fetch()), now)


def _expire_early(given: dict[str, Any], now: datetime) -> dict[str, Any]:
    """Credentials with an earlier expiry: by two minutes, or half of a shorter life.

    A request that has been signed may take a while until the server looks at it.
    """
    until = given["expires_at"]
    if until is None:
        return given
    return given | {"expires_at": until - min(_EARLY, max(until - now, timedelta(0)) / 2)}


# Web servers (read-only)


_FEATURES = ServerFeatures(writable=False, exact_etags=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpPlace:
    base_url: str = field(repr=False)  # may hold a password
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    headers: Headers = field(default=(), repr=False)
    prefix: str = ""

    @property
    def location(self) -> str:
        parts = urlsplit(self.base_url)
        netloc = parts.netloc.rpartition("@")[2]
        return parts._replace(netloc=netloc, query="", fragment="").geturl().rstrip("/")

    @property
    def features(self) -> ServerFeatures:
        return _FEATURES

    @property
    def is_self_contained(self) -> bool:
        return True

    def connect(self, role: Role, settings: RemoteSettings) -> "Client":
        from obstore.store import HTTPStore  # noqa: PLC0415 - `import frazil` stays light

        allow_http = self.base_url.startswith("http:")
        options = client_options(settings, role, allow_http=allow_http, headers=self.headers)
        return HTTPStore(
            self.base_url,
            client_options=options | dict(self.options),  # type: ignore[arg-type]  # a TypedDict
            retry_config=retry_options(settings),
        )
