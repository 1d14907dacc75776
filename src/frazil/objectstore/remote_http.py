"""Web servers, to read from."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from frazil.objectstore.remote_place import Habits, Headers
from frazil.objectstore.remote_settings import RemoteSettings, Role, client_options, retry_options

if TYPE_CHECKING:
    from obstore.store import ObjectStore as Client

_HABITS = Habits(writable=False, exact_etags=False)


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
    def habits(self) -> Habits:
        return _HABITS

    @property
    def says_all(self) -> bool:
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
