"""Changes of all sorts to a small tree, for properties; and what a snapshot then contains."""

from contextlib import suppress
from dataclasses import dataclass

from hypothesis import strategies as st

from frazil.engine.refs.version import Exactly
from frazil.engine.repository import Repository
from frazil.engine.session.session import Session
from frazil.errors import IcechunkError
from frazil.ids import SnapshotId
from frazil.paths import NodePath
from tests.unit.engine.conftest import GROUP, array_metadata


@dataclass(frozen=True, slots=True)
class Move:
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Write:
    path: str
    chunk: int
    value: int = 1  # 0 erases the chunk


@dataclass(frozen=True, slots=True)
class Define:
    """An array of so many chunks, created or changed; of none: a group."""

    path: str
    chunks: int = 0
    attribute: int = 0


@dataclass(frozen=True, slots=True)
class Delete:
    path: str


@dataclass(frozen=True, slots=True)
class Shift:
    path: str
    by: int


type Change = Move | Write | Define | Delete | Shift
type Contents = dict[str, tuple[str, bytes, dict[int, bytes]]]  # id, metadata, chunks

BASE: tuple[Change, ...] = (
    *(Define("/"), Define("/g"), Define("/g/h"), Define("/e")),
    *(Define("/g/x", 4), Define("/b", 4)),
    *(Write(path, chunk, 9) for path in ("/g/x", "/b") for chunk in range(3)),
)


def apply(session: Session, change: Change) -> None:
    """As far as it makes sense: what does not is left out."""
    with suppress(IcechunkError):
        match change:
            case Move(source, target):
                session.move(NodePath(source), NodePath(target))
            case Write(text, chunk, 0):
                session.delete_chunk(NodePath(text), (chunk,))
            case Write(text, chunk, value):
                session.set_chunk(NodePath(text), (chunk,), bytes([value]))
            case Define(text, chunks, attribute):
                if all(session.find_node(above) for above in NodePath(text).ancestors):
                    new = array_metadata(2 * chunks, k=attribute)
                    session.set_node(NodePath(text), new if chunks else GROUP + b" " * attribute)
            case Delete(text):
                session.delete_node(NodePath(text))
            case Shift(text, by):
                session.shift_array(NodePath(text), [by])


def contents(repository: Repository, at: SnapshotId | str) -> Contents:
    snapshot = repository.lookup_branch(at) if isinstance(at, str) else at
    session = repository.readonly_session(Exactly(snapshot))
    found: Contents = {}
    for node in session.nodes():
        chunks: dict[int, bytes] = {}
        for refs in session.chunk_refs(node.path) if node.is_array else ():
            data = session.fetch_chunks(node.path, refs.index)
            chunks |= {
                index[0]: bytes(each or b"")
                for index, each in zip(refs.index.tolist(), data, strict=True)
            }
        found[node.path.text] = (str(node.id), node.user_data, chunks)
    return found


PLACES = ("/b", "/e", "/g", "/g/h", "/g/x", "/g/n", "/e/n", "/n", "/e/g", "/g/h/n")
places = st.sampled_from(PLACES)
moves = st.builds(Move, places, places)
edits = st.one_of(
    st.builds(Write, places, st.integers(0, 3), st.integers(0, 2)),
    st.builds(Define, places, st.integers(0, 4), st.integers(0, 1)),
    st.builds(Delete, places),
    st.builds(Shift, places, st.integers(-1, 1)),
)
