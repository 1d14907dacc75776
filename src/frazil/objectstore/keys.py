"""Keys: relative, `/`-separated strings without empty, `.` or `..` segments.

Any character may be in a segment, even NUL: the reference accepts tags with such names, and
what cannot be listed would be taken for garbage.
"""

import os
import re

from frazil.errors import InvalidInputError, require_type

# One pattern decides for nearly all keys: a segment that starts with anything but a dot is
# neither `.` nor `..`.
_PLAIN = re.compile(r"[\w-][\w.-]*(?:/[\w-][\w.-]*)*", re.ASCII).fullmatch


def is_plain_key(key: str) -> bool:
    """True if the key is valid and made of ASCII letters, digits and `_-.` only."""
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


# Keys as file names: percent-encoding, segment by segment
#
# The names are those of the reference (the `object_store` crate), so that both can use one
# directory: non-ASCII, control characters and `" # % * < > ? [ \ ] ^ `` ` `` { | } ~` become `%XX`
# of their UTF-8 bytes. `.` and `..` are not keys.
#
# A file whose name no key has is not an object. So names with a bare `#` are free for temporary
# files: `.frazil-tmp#<digits>`, which the reference treats as temporary as well.


LOCK_NAME = ".frazil.lock"
_TEMPORARY_STEM = ".frazil-tmp#"
TICKET_STEM = ".frazil-turn#"  # of writers that wait for each other: local_turns.py
_ENCODED = re.compile(r"""[^ !$&'()+,\-./0-9:;=@A-Z_a-z]+""")
_ESCAPES = re.compile(r"(?:%[0-9A-F]{2})+")


def encode_key(key: str) -> str:
    """The path below the root of the object's file. Raises InvalidInputError."""
    if is_plain_key(key):  # cannot be the lock's name, which starts with a dot
        return key
    require_key(key)
    if key == LOCK_NAME:
        raise InvalidInputError(f"not a key: {key!r} is reserved for the lock of the store")
    return _ENCODED.sub(_escape_match, key)


def decode_name(name: str) -> str | None:
    """The segment that a file or directory name stands for; None if it stands for none."""
    if is_plain_key(name):
        return name
    try:
        segment = _ESCAPES.sub(_unescape_match, name)
    except UnicodeDecodeError:
        return None
    # Only what we would write: another spelling of a segment could not be fetched by its key.
    if "/" in segment or _ENCODED.sub(_escape_match, segment) != name:
        return None
    return segment


def encode_prefix(prefix: str) -> str:
    """The directory part of a valid prefix, `/` included, as a path below the root."""
    return _ENCODED.sub(_escape_match, prefix[: prefix.rfind("/") + 1])


def temporary_name() -> str:
    return f"{_TEMPORARY_STEM}{int.from_bytes(os.urandom(8)):020d}"


def is_temporary(name: str) -> bool:
    """True for a whole name of frazil's own: leftovers of other programs are not collected."""
    return any(
        name.startswith(stem) and name[len(stem) :].isdecimal()
        for stem in (_TEMPORARY_STEM, TICKET_STEM)
    )


def ticket_name(number: int) -> str:
    """Names of tickets are in the order of their numbers."""
    return f"{TICKET_STEM}{number:020d}{int.from_bytes(os.urandom(4)):010d}"


def _escape_match(match: re.Match[str]) -> str:
    # surrogateescape: file names that are not UTF-8 arrive here from `decode_name`
    return "".join(f"%{byte:02X}" for byte in match[0].encode(errors="surrogateescape"))


def _unescape_match(match: re.Match[str]) -> str:
    return bytes.fromhex(match[0].replace("%", "")).decode()


def clean_prefix(prefix: str | None) -> str:
    """Without empty segments. Raises InvalidInputError if it could not begin a key."""
    require_type(prefix, str | None)
    cleaned = "/".join(segment for segment in (prefix or "").split("/") if segment)
    if cleaned:
        require_key(cleaned)
    return cleaned
