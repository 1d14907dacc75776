"""Keys of the Zarr store and the nodes and chunks that they name.

    zarr.json            metadata of the root
    P/zarr.json          metadata of the node /P
    P/c/i/j/...          chunk (i, j, ...) of the array /P, indices in plain decimals below 2**32
    P/c                  the chunk of the 0-d array /P
    c/i/j/..., c         the same of an array at the root

A node may be called `c`, `0` or `abc`, so a key is read by its segments, from the end. Everything
after the marker `c` is a number, hence no other segment `c` follows it: the marker is the *last*
segment `c`, and a key has at most one reading. `a/c/0/c/1` is chunk (1,) of `/a/c/0`, for any
`/a`. No node has to be looked up to know that.

A prefix is different. `a/c/0` may be the path of a node and the start of the chunks of `/a`, and
only the hierarchy can tell which; both is possible too, in a repository with nested nodes
in an array. So a prefix has two readings, and who lists or deletes below it asks the session
about each.

Only the default chunk key encoding with the separator `/` is known here. Arrays with another one
cannot be written to, as with other Icechunk clients: they could not read the chunks back.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from frazil.dataclass import dataclass
from frazil.engine.session.session import Session
from frazil.errors import InvalidInputError, require_type
from frazil.format.nodes import Node
from frazil.paths import ROOT, NodePath

if TYPE_CHECKING:
    from frazil.format.chunk_refs import ChunkRefs

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
    """Returns the common prefix of the keys of the node at `path` and of those below it."""
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


# Listing below a prefix: keys, names, sizes. In batches, chunk references as columns.
#
# Every function looks at a prefix in its two readings (see keys): nodes at or below it, and chunks
# of an array whose leading indices it spells.


@dataclass(frozen=True, slots=True)
class _Chunks:
    """The chunks of one array whose first indices are `index`."""

    path: NodePath
    index: tuple[int, ...]

    def batches(self, session: Session) -> "Iterator[ChunkRefs]":
        for refs in session.chunk_refs(self.path):
            rows = np.flatnonzero(self._matches(refs.index))
            if len(rows):
                yield refs if len(rows) == len(refs.index) else refs.take(rows)

    def _matches(self, index: npt.NDArray[np.uint32]) -> npt.NDArray[np.bool_]:
        depth = len(self.index)
        wanted = np.array(self.index, dtype=np.uint32)
        matches: npt.NDArray[np.bool_] = (index[:, :depth] == wanted).all(axis=1)
        return matches


def keys_with_prefix(session: Session, prefix: str) -> Iterator[list[str]]:
    """Every key that starts with `prefix`, metadata first; `prefix` may end inside a name.

    The path of a node stands for that node and those below it, not for `foo-bar` beside `foo`.
    """
    require_type(prefix, str)
    prefix = prefix.removeprefix("/")
    whole = parse_directory(prefix)
    if whole is not None and session.find_node(whole.node) is not None:
        start = key_prefix(whole.node)
        prefix = start if start.startswith(prefix) else prefix
    directory = parse_directory(prefix.rpartition("/")[0])
    if directory is None:
        return
    nodes = [node for node in session.nodes(directory.node) if _may_match(node, prefix)]
    yield _filter_prefix([metadata_key(node.path) for node in nodes], prefix)
    for chunks in (*_all_chunks(nodes), *_leading_chunks(session, directory)):
        for refs in chunks.batches(session):
            yield _filter_prefix(chunk_keys(chunks.path, refs.index), prefix)


def names_below(session: Session, prefix: str) -> Iterator[set[str]]:
    """The next segment of every key below the directory `prefix`: one batch, made when asked."""
    directory = parse_directory(prefix)
    if directory is not None:
        yield _names_below(session, directory)


def _names_below(session: Session, directory: Directory) -> set[str]:
    names = set(session.child_names(directory.node))
    node = session.find_node(directory.node)
    if node is not None:
        names.add(METADATA_FILE)
        if node.array is not None and _any(_Chunks(node.path, ()), session):
            names.add(CHUNK_MARKER)
    for chunks in _leading_chunks(session, directory):
        depth = len(chunks.index)
        for refs in chunks.batches(session):
            names.update(map(str, np.unique(refs.index[:, depth]).tolist()))
    return names


def is_empty(session: Session, prefix: str) -> bool:
    """True if no key is below the directory `prefix`."""
    directory = parse_directory(prefix)
    if directory is None:
        return True
    if next(iter(session.nodes(directory.node)), None) is not None:
        return False
    return not any(_any(chunks, session) for chunks in _leading_chunks(session, directory))


def size_below(session: Session, prefix: str) -> int:
    """Bytes of all values below the directory `prefix`."""
    directory = parse_directory(prefix)
    if directory is None:
        return 0
    nodes = list(session.nodes(directory.node))
    size = sum(len(node.user_data) for node in nodes)
    for chunks in (*_all_chunks(nodes), *_leading_chunks(session, directory)):
        size += sum(int(refs.length.sum()) for refs in chunks.batches(session))
    return size


def delete_below(session: Session, prefix: str) -> None:
    """Removes every key below the directory `prefix`."""
    directory = parse_directory(prefix)
    if directory is None:
        return
    # The directory itself need not be a node: then its topmost nodes go, each with its subtree.
    for node in list(session.nodes(directory.node)):
        session.delete_node(node.path)
    for chunks in _leading_chunks(session, directory, or_one=True):
        session.delete_chunks_under(chunks.path, chunks.index)


def _all_chunks(nodes: list[Node]) -> Iterator[_Chunks]:
    return (_Chunks(node.path, ()) for node in nodes if node.array is not None)


def _leading_chunks(
    session: Session, directory: Directory, *, or_one: bool = False
) -> Iterator[_Chunks]:
    """The second reading of a directory, if there is such an array and it has enough dimensions.

    With `or_one` it may be a chunk, which is no directory.
    """
    if directory.chunks is not None:
        path, index = directory.chunks.path, directory.chunks.index
        node = session.find_node(path)
        if node is not None and node.array is not None:
            missing = len(node.array.shape) - len(index)
            if missing < 0 or (missing == 0 and not or_one):
                return
            yield _Chunks(path, index)


def _any(chunks: _Chunks, session: Session) -> bool:
    return next(chunks.batches(session), None) is not None


def _may_match(node: Node, prefix: str) -> bool:
    start = key_prefix(node.path)
    return start.startswith(prefix) or prefix.startswith(start)


def _filter_prefix(keys: list[str], prefix: str) -> list[str]:
    return [key for key in keys if key.startswith(prefix)]
