"""The user agent of requests to object stores, with labels that a caller wants in access logs."""

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from frazil.dataclass import dataclass
from frazil.format.records import Displayed
from frazil.lazy import lazy_module
from frazil.objectstore.protocol import ObjectStore

if TYPE_CHECKING:
    from importlib import metadata
else:  # only requests to servers name the version
    metadata = lazy_module("importlib.metadata")

_MAX_BYTES = 128
_WORD = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"  # of HTTP: RFC 9110, 5.6.2
_CLIENT = f"{_WORD}(/{_WORD})?"
_FORBIDDEN = frozenset('()\\;="')


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribution(Displayed):
    """Software, workload and principal on whose behalf requests are made. Raises ValueError.

    Sent to servers with every request of a repository; a local directory or memory has no use for
    it.
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
        if self.client is not None and not re.fullmatch(_CLIENT, self.client):
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


def with_user_agent(store: ObjectStore, attribution: Attribution | None) -> ObjectStore:
    """Returns the same store, whose requests have the user agent; others than remote have none."""
    return store.with_settings(
        lambda before: replace(before, user_agent=format_user_agent(attribution))
    )


def format_user_agent(attribution: Attribution | None) -> str:
    """Returns `client/1.2 frazil/0.1 (workload=...; principal=...)`."""
    given = attribution or Attribution()
    labels = [("workload", given.workload), ("principal", given.principal)]
    comment = "; ".join(f"{name}={value}" for name, value in labels if value is not None)
    client = [] if given.client is None else [given.client]
    own = [f"frazil/{metadata.version('frazil')}"]
    return " ".join([*client, *own, *([f"({comment})"] if comment else [])])
