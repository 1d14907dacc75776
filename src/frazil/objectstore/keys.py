"""Which strings are keys: relative, `/`-separated, without empty, `.` or `..` segments.

Any character may be in a segment, even NUL: the reference accepts tags with such names, and
what cannot be listed would be taken for garbage.
"""

import re

from frazil.errors import InvalidInputError

# One pattern decides for nearly all keys: a segment that starts with anything but a dot is
# neither `.` nor `..`.
_PLAIN = re.compile(r"[\w-][\w.-]*(?:/[\w-][\w.-]*)*", re.ASCII).fullmatch


def is_plain_key(key: str) -> bool:
    """Whether the key is valid and made of ASCII letters, digits and `_-.` only."""
    return _PLAIN(key) is not None


def require_key(key: str) -> None:
    if not is_plain_key(key):
        _require_segments(key, key.split("/"))


def require_prefix(prefix: str) -> None:
    """A prefix is the beginning of a key: only its last segment may be incomplete or empty."""
    whole = prefix.split("/")[:-1]
    if whole:
        _require_segments(prefix, whole)


def _require_segments(text: str, segments: list[str]) -> None:
    if any(segment in ("", ".", "..") for segment in segments):
        raise InvalidInputError(f"not a key: {text!r} has an empty, `.` or `..` segment")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInputError(f"not a key: {text!r} is not valid Unicode") from error
