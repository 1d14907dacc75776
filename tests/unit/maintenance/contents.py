"""What a version of a repository holds, wherever its bytes are."""

from frazil.engine.changes.chunk_reads import fetch_payload
from frazil.engine.refs.version import Branch, Exactly, Version
from frazil.engine.repository import Repository
from frazil.engine.session.session import Session
from frazil.format.chunk_refs import Payload, Virtual
from frazil.format.nodes import Node
from frazil.ids import SnapshotId
from frazil.objectstore.protocol import ObjectStore

type Contents = dict[str, tuple[bytes, dict[tuple[int, ...], bytes | Virtual]]]


def contents_of(repository: Repository, version: Version | None = None) -> Contents:
    """By path the metadata, and by index the bytes of each chunk. Nothing is from memory."""
    opened = Repository.open(repository.store, repository.config)
    session = opened.readonly_session(version or Branch("main"))
    return {node.path.text: (node.user_data, _chunks(session, node)) for node in session.nodes()}


def history_of(repository: Repository) -> dict[SnapshotId, Contents]:
    opened = Repository.open(repository.store, repository.config)
    records = opened.ancestry(Branch("main"))
    return {each.id: contents_of(repository, Exactly(each.id)) for each in records}


def keys(store: ObjectStore, prefix: str) -> set[str]:
    return {info.key for info in store.list(prefix)}


def _chunks(session: Session, node: Node) -> dict[tuple[int, ...], bytes | Virtual]:
    if node.array is None:
        return {}
    found = {}
    for refs in session.chunk_refs(node.path):
        for row, index in enumerate(refs.index.tolist()):
            found[tuple(index)] = _bytes(session, refs.payload(row))
    return found


def _bytes(session: Session, payload: Payload) -> bytes | Virtual:
    if isinstance(payload, Virtual):
        return payload
    return bytes(fetch_payload(session.files, payload, None))
