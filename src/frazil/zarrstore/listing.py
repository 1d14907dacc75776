"""What is below a prefix: keys, names, sizes. In batches, chunk references as columns.

Every function looks at a prefix in its two readings (see keys): nodes at or below it, and chunks of
an array whose leading indices it spells.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from frazil.errors import require_type
from frazil.format.chunk_refs import ChunkRefs
from frazil.format.snapshot import Node
from frazil.paths import NodePath
from frazil.repo.session import Session
from frazil.zarrstore.keys import (
    CHUNK_MARKER,
    METADATA_FILE,
    Directory,
    chunk_keys,
    key_prefix,
    metadata_key,
    parse_directory,
)


@dataclass(frozen=True, slots=True)
class _Chunks:
    """The chunks of one array whose first indices are `index`."""

    path: NodePath
    index: tuple[int, ...]

    def batches(self, session: Session) -> Iterator[ChunkRefs]:
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
    yield _matching([metadata_key(node.path) for node in nodes], prefix)
    for chunks in (*_all_chunks(nodes), *_leading_chunks(session, directory)):
        for refs in chunks.batches(session):
            yield _matching(chunk_keys(chunks.path, refs.index), prefix)


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
    """Whether no key is below the directory `prefix`."""
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


def _matching(keys: list[str], prefix: str) -> list[str]:
    return [key for key in keys if key.startswith(prefix)]
