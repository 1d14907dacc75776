"""What a key of the Zarr store names.

    zarr.json            metadata of the root
    P/zarr.json          metadata of the node /P
    P/c/i/j/...          chunk (i, j, ...) of the array /P, indices in plain decimals below 2**32
    P/c                  the chunk of the 0-d array /P
    c/i/j/..., c         the same of an array at the root

A node may be called `c`, `0` or `abc`, so a key is read by its segments, from the end. Everything
after the marker `c` is a number, hence no other segment `c` follows it: the marker is the *last*
segment `c`, and a key has at most one reading. `a/c/0/c/1` is chunk (1,) of `/a/c/0`, whatever
`/a` is. No node has to be looked up to know that.

A prefix is different. `a/c/0` may be the path of a node and the start of the chunks of `/a`, and
only the hierarchy can tell which; both is possible too, in a repository where somebody nested nodes
in an array. So a prefix has two readings, and who lists or deletes below it asks the session
about each.

Only the default chunk key encoding with the separator `/` is known here. Arrays with another one
cannot be written to, as with other Icechunk clients: they could not read the chunks back.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from frazil.errors import (
    InvalidInputError,
    require_type,
)
from frazil.paths import ROOT, NodePath

METADATA_FILE = "zarr.json"
CHUNK_MARKER = "c"
_MAX_INDEX = 2**32 - 1


@dataclass(frozen=True, slots=True)
class MetadataKey:
    path: NodePath


@dataclass(frozen=True, slots=True)
class ChunkKey:
    path: NodePath
    index: tuple[int, ...]


type Key = MetadataKey | ChunkKey


@dataclass(frozen=True, slots=True)
class Directory:
    """The two readings of a prefix: a node, and the leading indices of an array's chunks."""

    node: NodePath
    chunks: ChunkKey | None


def parse_key(key: str) -> Key | None:
    """None for what is not a key of a Zarr version 3 hierarchy. A leading slash is tolerated."""
    require_type(key, str)
    segments = key.removeprefix("/").split("/")
    if segments[-1] == METADATA_FILE:
        path = _parse_path("/".join(segments[:-1]))
        return None if path is None else MetadataKey(path)
    return _parse_chunk_key(segments)


def require_key(key: str) -> Key:
    parsed = parse_key(key)
    if parsed is None:
        raise InvalidInputError(
            f"invalid zarr key format `{key}`: expected `.../{METADATA_FILE}` or"
            f" `.../{CHUNK_MARKER}/0/0`, as Zarr version 3 names them with its default encoding"
        )
    return parsed


def parse_directory(prefix: str) -> Directory | None:
    """None for what no key can be below of. Slashes at either end do not matter."""
    require_type(prefix, str)
    stripped = prefix.strip("/")
    if not stripped:
        return Directory(ROOT, None)
    path = _parse_path(stripped)
    return None if path is None else Directory(path, _parse_chunk_key(stripped.split("/")))


def key_prefix(path: NodePath) -> str:
    """What all keys of the node at `path`, and of those below it, start with."""
    return "" if path == ROOT else path.text[1:] + "/"


def metadata_key(path: NodePath) -> str:
    return key_prefix(path) + METADATA_FILE


def chunk_keys(path: NodePath, index: npt.NDArray[np.uint32]) -> list[str]:
    """Key of each chunk of the array at `path`; `index` has the shape (n, ndim)."""
    count, ndim = index.shape
    if count == 0:
        return []
    # One formatting operation for all rows: a tenth of the time of one per row.
    rows = "\n".join(["/%d" * ndim] * count) % tuple(index.ravel().tolist())
    start = key_prefix(path) + CHUNK_MARKER
    return [start + row for row in rows.split("\n")]


def _parse_chunk_key(segments: list[str]) -> ChunkKey | None:
    marker = len(segments) - 1
    while marker >= 0 and _is_index(segments[marker]):
        marker -= 1
    if marker < 0 or segments[marker] != CHUNK_MARKER:
        return None
    path = _parse_path("/".join(segments[:marker]))
    return None if path is None else ChunkKey(path, tuple(map(int, segments[marker + 1 :])))


def _is_index(segment: str) -> bool:
    return (
        segment.isascii()
        and segment.isdigit()
        and (segment == "0" or segment[0] != "0")
        and len(segment) <= 10
        and int(segment) <= _MAX_INDEX
    )


@lru_cache(maxsize=4096)  # the chunks of one array all ask for the same path
def _parse_path(text: str) -> NodePath | None:
    try:
        return NodePath("/" + text)
    except InvalidInputError:
        return None
