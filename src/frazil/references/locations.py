"""Where references point to, as locations of virtual chunks.

Reference sets hold what fsspec opens: paths of this machine, and URLs in which nothing is encoded
unless they are of HTTP. Locations of virtual chunks are percent-encoded.
"""

import re
from pathlib import PurePath
from urllib.parse import quote

from frazil.errors import InvalidInputError
from frazil.flatbuf.strings import Strings
from frazil.format.urls import regular

_ALIASES = {"s3a": "s3", "s3n": "s3", "local": "file"}
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_ENCODED_ALREADY = frozenset({"http", "https", "vcc"})
_KEPT = "!$&'()*+,;=:@/~ "  # of a path; blanks may stay, `?`, `#` and `%` may not


def located(texts: Strings, *, root: str | None) -> Strings:
    """The location of each text; relative paths are below `root`, a directory or a URL."""
    return Strings.from_list([locate(text, root=root) for text in texts.to_texts()])


def locate(text: str, *, root: str | None) -> str:
    """Raises InvalidInputError for what is no location."""
    if "::" in text:
        raise InvalidInputError(
            f"{text!r} is a chain of filesystems: no location of a virtual chunk",
            kind="invalid-virtual-ref",
        )
    url = _URL.fullmatch(text)
    if url is None:
        return _local(text, root=root)
    scheme, rest = url[1].lower(), url[2]
    scheme = _ALIASES.get(scheme, scheme)
    if scheme == "file":
        return _local(rest, root=root)
    if scheme in _ENCODED_ALREADY:
        return regular(f"{scheme}://{rest}")
    bucket, slash, key = rest.partition("/")
    return regular(f"{scheme}://{bucket}{slash}{quote(key, safe=_KEPT)}")


def _local(path: str, *, root: str | None) -> str:
    if not path:
        raise InvalidInputError("an empty path is no location", kind="invalid-virtual-ref")
    if PurePath(path).is_absolute():
        return regular("file://" + quote(path, safe="/"))
    if root is None:
        raise InvalidInputError(
            f"the path {path!r} is relative: say with `root` what to",
            kind="invalid-virtual-ref",
        )
    if not _URL.fullmatch(root) and not PurePath(root).is_absolute():
        raise InvalidInputError(f"root {root!r} is neither a URL nor an absolute path")
    return locate(f"{root.rstrip('/')}/{path}", root=None)
