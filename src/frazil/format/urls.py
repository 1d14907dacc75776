"""Locations of virtual chunks, as text: what is stored of one that a caller gives, what it names.

    s3://bucket/some/key.nc      kept as it is given; only the scheme becomes lower case
    file:///data/some.nc         made regular as browsers do it: `..` is resolved, blanks encoded
    vcc://name/some/key.nc       below the prefix of the container of that name

The path is percent-encoded and may be followed by a query and a fragment, which name nothing.
"""

import json
import re
from dataclasses import dataclass
from urllib.parse import quote, unquote

from frazil.errors import InvalidInputError

VCC = "vcc://"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_AUTHORITY = re.compile(r"[^/?#]*")
_PATH = re.compile(r"[^?#]*")
_PARTS = re.compile(r"([^?#]*)(\?[^#]*)?(#.*)?", re.DOTALL)
_DRIVE = re.compile(r"[A-Za-z][:|]")
_BLANKS = "".join(map(chr, range(33)))
_DROPPED = str.maketrans("", "", "\t\n\r")
_PRINTABLE = "".join(map(chr, range(33, 127)))


def _all_but(unsafe: str) -> str:
    return "".join(set(_PRINTABLE) - set(unsafe))


_SAFE_IN_PATH = _all_but('"#<>?`{}')
_SAFE_IN_QUERY = _all_but("\"#<>'")
_SAFE_IN_FRAGMENT = _all_but('"<>`')


@dataclass(frozen=True, slots=True)
class Place:
    """What a location names: an object of one store. The key is decoded, without first slash."""

    scheme: str
    authority: str
    key: str


def regular(text: str) -> str:
    """The location as it is stored. Raises InvalidInputError."""
    scheme, separator, rest = text.partition("://")
    if not separator or scheme.lower() == "file":
        return _standard(text)
    if _authority(rest):
        return f"{scheme.lower()}://{rest}"
    if scheme.lower() == "vcc":
        raise unknown_name(text)
    raise _no_bucket(text)


def place_of(location: str) -> Place:
    """Of a regular location that is not relative to a container. Raises InvalidInputError."""
    scheme, _, rest = location.partition("://")
    if not _SCHEME.fullmatch(scheme + ":"):
        raise _without_base(location)
    authority = _authority(rest)
    path = _PATH.match(rest, len(authority))
    # The name of a local file may be any bytes, that of other objects is text.
    errors = "surrogateescape" if scheme == "file" else "replace"
    key = unquote(path[0] if path else "", errors=errors)
    return Place(scheme, authority, key.removeprefix("/"))


def decoded(location: str) -> str:
    """What prefixes are compared with: the path is decoded, what stands before it is not.

    Were it, `http://good%2F@evil/` would begin with `http://good/`, and be somewhere else.
    """
    scheme, separator, rest = location.partition("://")
    start = len(scheme) + len(separator) + len(_authority(rest))
    return location[:start] + unquote(location[start:], errors="surrogateescape")


def container_name(location: str) -> str | None:
    """The container that a location is relative to; None if it is complete."""
    if not location.startswith(VCC):
        return None
    return location[len(VCC) :].partition("/")[0]


def has_odd_segments(key: str) -> bool:
    """Whether a key has empty, `.` or `..` segments; that it ends in a slash is fine."""
    segments = key.split("/")
    return bool({".", ".."}.intersection(segments) or "" in segments[:-1])


def odd_key(key: str) -> InvalidInputError:
    return InvalidInputError(
        f"object store backend cannot address key {json.dumps('/' + key, ensure_ascii=False)}:"
        " it contains empty (//), '.' or '..' path segments",
        kind="invalid-virtual-ref",
    )


def unknown_name(name: str) -> InvalidInputError:
    return InvalidInputError(
        f"no virtual chunk container named {name!r} found, check the repository configuration",
        kind="no-container-for-virtual-chunk",
    )


def _authority(rest: str) -> str:
    found = _AUTHORITY.match(rest)
    return found[0] if found else ""


def _standard(text: str) -> str:
    """Of a file, or of something that hardly is a location."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInputError(
            f"virtual reference is not Unicode: {text!r}", kind="invalid-virtual-ref"
        ) from error
    cleaned = text.strip(_BLANKS).translate(_DROPPED)
    scheme = _SCHEME.match(cleaned)
    if scheme is None:
        raise _without_base(text)
    rest = cleaned[scheme.end() :]
    match scheme[1].lower():
        case "file":
            return _file_url(rest)
        case "http" | "https" as web if rest.strip("/\\"):
            host, _, path = rest.lstrip("/\\").partition("/")
            return f"{web}://{host.lower()}/{path}"
        case _ if rest.startswith("/"):
            raise _no_bucket(text)
        case _:
            raise InvalidInputError(
                f"virtual reference has no path segments {text}", kind="invalid-virtual-ref"
            )


def _without_base(text: str) -> InvalidInputError:
    return InvalidInputError(
        f"error parsing virtual ref URL: {json.dumps(text, ensure_ascii=False)}:"
        " relative URL without a base",
        kind="invalid-virtual-ref",
    )


def _no_bucket(text: str) -> InvalidInputError:
    return InvalidInputError(
        f"error parsing bucket name from virtual ref URL {text}", kind="invalid-virtual-ref"
    )


def _file_url(rest: str) -> str:
    parts = _PARTS.fullmatch(rest)
    path, query, fragment = ("", "", "") if parts is None else parts.groups("")
    path = path.replace("\\", "/")
    host = ""
    if path.startswith("//"):
        host, _, below = path[2:].partition("/")
        path = "/" + below
        if _DRIVE.fullmatch(host):
            host, path = "", f"/{host}{path}"
    host = "" if host.lower() == "localhost" else host.lower()
    return (
        f"file://{host}/"
        + "/".join(_resolved(path.removeprefix("/").split("/")))
        + quote(query, safe=_SAFE_IN_QUERY)
        + quote(fragment, safe=_SAFE_IN_FRAGMENT)
    )


def _resolved(segments: list[str]) -> list[str]:
    """Without `.` and `..`, however they are written; what ends in one ends in a slash."""
    kept: list[str] = []
    for segment in segments:
        meaning = segment.lower().replace("%2e", ".")
        if meaning == "..":
            del kept[-1:]
        elif meaning != ".":
            kept.append(quote(segment, safe=_SAFE_IN_PATH))
    if segments[-1].lower().replace("%2e", ".") in {".", ".."}:
        kept.append("")
    return kept
