"""A small history, and changes to make to it."""

from collections.abc import Callable

from frazil.engine.refs.version import Branch, Exactly
from frazil.engine.repository import Repository
from frazil.engine.session.session import Session
from frazil.ids import SnapshotId
from frazil.objectstore.memory import MemoryStore
from frazil.paths import NodePath
from tests.unit.engine.conftest import GROUP, array_metadata

ROOT, A, B, G = NodePath("/"), NodePath("/a"), NodePath("/b"), NodePath("/g")
CHILD = NodePath("/g/x")

type Change = Callable[[Session], None]
type Contents = dict[str, tuple[bytes, dict[tuple[int, ...], bytes]]]


def branched_repository(store: MemoryStore) -> Repository:
    """Arrays of four chunks, all written, on branches `main` and `side`."""
    repository = Repository.create(store)
    session = repository.writable_session("main")
    session.set_node(ROOT, GROUP)
    session.set_node(G, GROUP)
    for path in (A, B, CHILD):
        session.set_node(path, array_metadata(8))
        write(path, 0, 1, 2, 3, data=b"base")(session)
    repository.create_branch("side", session.commit("base"))
    return repository


def write(path: NodePath, *chunks: int, data: bytes = b"new") -> Change:
    def change(session: Session) -> None:
        for chunk in chunks:
            session.set_chunk(path, (chunk,), data)

    return change


def update(path: NodePath, metadata: bytes) -> Change:
    return lambda session: session.set_node(path, metadata)


def delete(path: NodePath) -> Change:
    return lambda session: session.delete_node(path)


def erase(path: NodePath, chunk: int) -> Change:
    return lambda session: session.delete_chunk(path, (chunk,))


def commit(repository: Repository, *changes: Change, branch: str = "main") -> SnapshotId:
    session = repository.writable_session(branch)
    for change in changes:
        change(session)
    return session.commit("a change")


def contents(repository: Repository, snapshot: SnapshotId | str) -> Contents:
    version = Branch(snapshot) if isinstance(snapshot, str) else Exactly(snapshot)
    session = repository.readonly_session(version)
    found: Contents = {}
    for node in session.nodes():
        chunks: dict[tuple[int, ...], bytes] = {}
        for refs in session.chunk_refs(node.path) if node.is_array else ():
            data = session.fetch_chunks(node.path, refs.index)
            chunks |= {
                tuple(i): bytes(each or b"")
                for i, each in zip(refs.index.tolist(), data, strict=True)
            }
        found[node.path.text] = (node.user_data, chunks)
    return found


def parent(repository: Repository, snapshot: SnapshotId) -> SnapshotId:
    found = repository.lookup_snapshot(snapshot).parent_id
    assert found is not None
    return found


def chunks(repository: Repository, path: NodePath, branch: str = "main") -> list[bytes | None]:
    found = contents(repository, branch)[path.text][1]
    return [found.get((i,)) for i in range(4)]
