"""Locations of virtual chunks, as text: what is stored of one that a caller gives, what it names.

    s3://bucket/some/key.nc      kept as it is given; only the scheme becomes lower case
    file:///data/some.nc         made regular as browsers do it: `..` is resolved, blanks encoded
    vcc://name/some/key.nc       below the prefix of the container of that name

The path is percent-encoded and may be followed by a query and a fragment, which name nothing.
"""

import json
import re
from collections.abc import Callable, Sequence
from urllib.parse import quote, unquote

import numpy as np
import numpy.typing as npt

from frazil.dataclass import dataclass
from frazil.errors import InvalidInputError
from frazil.flatbuf.columns import StringColumn
from frazil.flatbuf.ragged import Bytes1, Ints
from frazil.flatbuf.strings import Strings

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
    """The object of a store that a location names. The key is decoded, without first slash."""

    scheme: str
    authority: str
    key: str


def normalize_location(text: str) -> str:
    """The location as it is stored. Raises InvalidInputError."""
    scheme, separator, rest = text.partition("://")
    if not separator or scheme.lower() == "file":
        return _normalize_file_location(text)
    if _authority(rest):
        return f"{scheme.lower()}://{rest}"
    if scheme.lower() == "vcc":
        raise unknown_container_error(text)
    raise _no_bucket(text)


def place_of(location: str) -> Place:
    """Parses a regular location that is not relative to a container. Raises InvalidInputError."""
    scheme, _, rest = location.partition("://")
    if not _SCHEME.fullmatch(scheme + ":"):
        raise _without_base(location)
    authority = _authority(rest)
    path = _PATH.match(rest, len(authority))
    # The name of a local file may be any bytes, that of other objects is text.
    errors = "surrogateescape" if scheme == "file" else "replace"
    key = unquote(path[0] if path else "", errors=errors)
    return Place(scheme, authority, key.removeprefix("/"))


def decode_path(location: str) -> str:
    """The location with its path decoded, as prefixes are compared with it.

    The authority is not decoded: `http://good%2F@evil/` must not begin with `http://good/`.
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
    """True if a key has empty, `.` or `..` segments; a final slash is fine."""
    segments = key.split("/")
    return bool({".", ".."}.intersection(segments) or "" in segments[:-1])


def odd_key(key: str) -> InvalidInputError:
    return InvalidInputError(
        f"object store backend cannot address key {json.dumps('/' + key, ensure_ascii=False)}:"
        " it contains empty (//), '.' or '..' path segments",
        kind="invalid-virtual-ref",
    )


def unknown_container_error(name: str) -> InvalidInputError:
    return InvalidInputError(
        f"no virtual chunk container named {name!r} found, check the repository configuration",
        kind="no-container-for-virtual-chunk",
    )


def _authority(rest: str) -> str:
    found = _AUTHORITY.match(rest)
    return found[0] if found else ""


def _normalize_file_location(text: str) -> str:
    """Normalizes the location of a file, or a text that may not be a location at all."""
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
        + "/".join(_resolve_dots(path.removeprefix("/").split("/")))
        + quote(query, safe=_SAFE_IN_QUERY)
        + quote(fragment, safe=_SAFE_IN_FRAGMENT)
    )


def _resolve_dots(segments: list[str]) -> list[str]:
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


# -------------------------------------------------------------------------------------------------
# Prefix tests on many strings: a few prefixes against a table of a million.

type Bools = npt.NDArray[np.bool_]
_WORD = 8


def starts_with(texts: Strings, prefix: bytes) -> Bools:
    """(m,) whether each string begins with `prefix`; compared by words, not by letters."""
    if not prefix:
        return np.ones(len(texts), np.bool_)
    rows = np.flatnonzero(texts.length >= len(prefix))
    start = texts.start[rows]
    whole = len(prefix) // _WORD * _WORD
    for at in range(0, whole, _WORD):
        word = np.frombuffer(prefix[at : at + _WORD], np.uint64)[0]
        hit = _words(texts.heap)[start + at] == word
        rows, start = rows[hit], start[hit]
    for at in range(whole, len(prefix)):
        hit = texts.heap[start + at] == prefix[at]
        rows, start = rows[hit], start[hit]
    found = np.zeros(len(texts), np.bool_)
    found[rows] = True
    return found


def _words(heap: Bytes1) -> npt.NDArray[np.uint64]:
    """The eight bytes from each byte on, as one number; a view."""
    count = max(len(heap) - _WORD + 1, 0)
    return np.ndarray((count,), np.uint64, buffer=heap, strides=(1,))


def longest_prefix(texts: Strings, prefixes: Sequence[bytes]) -> Ints:
    """(m,) the number of the longest prefix that each string begins with, -1 if none does."""
    found = np.full(len(texts), -1, np.int64)
    rows = np.arange(len(texts))
    for number in sorted(range(len(prefixes)), key=lambda each: -len(prefixes[each])):
        hit = starts_with(texts.take(rows), prefixes[number])
        found[rows[hit]] = number
        rows = rows[~hit]
        if not len(rows):
            break
    return found


def contains_any(texts: Strings, marks: Sequence[bytes]) -> Bools:
    """(m,) whether each string contains one of the marks; at no cost if none is anywhere."""
    joined = texts.joined()
    data = joined.tobytes()
    if not any(mark in data for mark in marks):
        return np.zeros(len(texts), np.bool_)
    starts = np.cumsum(texts.length) - texts.length
    found = np.zeros(len(texts), np.bool_)
    for mark in marks:
        at = _places(joined, mark)
        # The string that the mark begins in, if it ends there too.
        row = np.searchsorted(starts, at, side="right") - 1
        found[row[at + len(mark) <= starts[row] + texts.length[row]]] = True
    return found


def contain_any_of(texts: Strings, wanted: Bools) -> Bools:
    """(m,) whether each string has a byte that is marked in `wanted`, (256,)."""
    joined = texts.joined()
    at = np.flatnonzero(wanted[joined])
    found = np.zeros(len(texts), np.bool_)
    starts = np.cumsum(texts.length) - texts.length
    found[np.searchsorted(starts, at, side="right") - 1] = True
    return found


def replace_strings(texts: Strings, chosen: Bools, change: Callable[[bytes], bytes]) -> Strings:
    """The table with the chosen strings, which should be few, replaced."""
    rows = np.flatnonzero(chosen)
    if not len(rows):
        return texts
    new = Strings.from_list([change(item) for item in texts.take(rows).to_list()])
    place = np.arange(len(texts), dtype=np.int64)
    place[rows] = len(texts) + np.arange(len(rows))
    return Strings.concat([texts, new]).take(place)


def _places(heap: Bytes1, mark: bytes) -> Ints:
    """Positions at which `mark` begins."""
    size = len(heap) - len(mark) + 1
    if size <= 0:
        return np.zeros(0, np.int64)
    at = np.flatnonzero(heap[:size] == mark[0])
    for place in range(1, len(mark)):
        at = at[heap[at + place] == mark[place]]
    return at


# -------------------------------------------------------------------------------------------------
# Locations of virtual chunks, a million at a time: the table of distinct ones, not the rows.
#
# The rules for one location are applied to whole groups that begin alike; only locations that are
# not in their stored form are looked at one by one.

_HEAD = re.compile(rb"(?!file:)[a-z][a-z0-9+.-]*://[^/?#]+/")
_FILE = b"file:///"
_MOST_HEADS = 64  # stores in one table; what is in others is looked at one by one

# Bytes that make a file's location one to look at: it might be stored otherwise.
_UNUSUAL = np.ones(256, np.bool_)
_UNUSUAL[33:127] = False
_UNUSUAL[np.frombuffer(b"\"'#<>?\\`{}", np.uint8)] = True
_DOTS = (b"/.", b"%2")  # perhaps `.` or `..`


def regular_column(locations: StringColumn) -> StringColumn:
    """Applies `normalize_location` to a column; raises the error of the first invalid location."""
    return StringColumn(locations.codes, normalize_locations(locations.strings))


def normalize_locations(texts: Strings) -> Strings:
    return replace_strings(
        texts, ~_normalized_mask(texts), lambda item: normalize_location(item.decode()).encode()
    )


def _normalized_mask(texts: Strings) -> Bools:
    known = np.zeros(len(texts), np.bool_)
    rows = np.arange(len(texts))
    for _ in range(_MOST_HEADS):
        if not len(rows):
            break
        hit = _same_store_mask(texts.take(rows))
        known[rows] = hit if hit[0] else False
        rows = rows[~hit] if hit[0] else rows[1:]
    files = np.flatnonzero(starts_with(texts, _FILE))
    if len(files):
        paths = texts.take(files)
        known[files] = ~(contain_any_of(paths, _UNUSUAL) | contains_any(paths, _DOTS))
    return known


def _same_store_mask(texts: Strings) -> Bools:
    """True for strings in the same store as the first; for none if the first is not regular."""
    first = texts.item(0)
    head = _HEAD.match(first)
    if head is not None:
        return starts_with(texts, head[0])
    return starts_with(texts, _FILE) & first.startswith(_FILE)


def decode_paths(texts: Strings) -> Strings:
    """Applies `decode_path` to a table."""
    return replace_strings(
        texts,
        contains_any(texts, [b"%"]),
        lambda item: decode_path(item.decode()).encode(errors="surrogateescape"),
    )
