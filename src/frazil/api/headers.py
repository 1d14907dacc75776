"""Headers of HTTP that callers add to requests."""

import re
from collections.abc import Mapping

_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")  # RFC 9110, 5.6.2
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")


def merged_headers(
    both: Mapping[str, str] | None, own: Mapping[str, str] | None
) -> tuple[tuple[str, str], ...]:
    """Those for reading and writing, under those for one of them. Raises ValueError.

    A value may be a secret, and is not part of the message.
    """
    merged = {**(both or {}), **(own or {})}
    for name, value in merged.items():
        if not _NAME.fullmatch(name):
            raise ValueError(f"invalid HTTP header name {name!r}")
        if not _VALUE.fullmatch(value):
            raise ValueError(f"invalid HTTP header value for {name!r}")
    return tuple(merged.items())
