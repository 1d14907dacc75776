"""Labels for the access logs of those who pay for the requests."""

import re
from dataclasses import dataclass

from frazil.format.records import Displayed

_MAX_BYTES = 128
_WORD = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"  # of HTTP: RFC 9110, 5.6.2
_CLIENT = re.compile(f"{_WORD}(/{_WORD})?")
_FORBIDDEN = frozenset('()\\;="')


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribution(Displayed):
    """Which software asks, for what, and on whose behalf. Raises ValueError.

    Told to servers with every request of a repository; where storage is a directory or memory
    there is nobody to tell.
    """

    client: str | None = None
    workload: str | None = None
    principal: str | None = None

    __str__ = Displayed.__str__

    def __post_init__(self) -> None:
        for name in ("client", "workload", "principal"):
            value = getattr(self, name)
            if value is not None:
                _require_short_text(name, value)
        if self.client is not None and not _CLIENT.fullmatch(self.client):
            raise ValueError(
                "attribution `client` must be `name` or `name/version` in token characters,"
                f" got {self.client!r}"
            )
        for name in ("workload", "principal"):
            _require_allowed(name, getattr(self, name) or "")


def _require_short_text(name: str, value: object) -> None:
    if not isinstance(value, str):
        raise TypeError(f"attribution `{name}` is {type(value).__name__}, not str")
    if len(value.encode()) > _MAX_BYTES:
        raise ValueError(f"attribution `{name}` is longer than {_MAX_BYTES} bytes")


def _require_allowed(name: str, value: str) -> None:
    for character in value:
        if character in _FORBIDDEN or not " " <= character <= "~":
            raise ValueError(f"attribution `{name}` contains the forbidden character {character!r}")
