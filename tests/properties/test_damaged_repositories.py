"""A damaged file gives FormatError with the name of the file, or is read; nothing else happens."""

from collections.abc import Callable, Iterator
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.engine.files.object_keys import (
    MANIFESTS,
    REPO_INFO,
    SNAPSHOTS,
    TRANSACTIONS,
    transaction_key,
)
from frazil.engine.refs.version import Branch
from frazil.engine.repository import Repository
from frazil.errors import FormatError, IcechunkError
from frazil.format.chunk_refs import ChunkRefs
from frazil.ids import INITIAL_SNAPSHOT
from frazil.objectstore.memory import MemoryStore
from frazil.paths import NodePath

ARRAY = (
    b'{"zarr_format": 3, "node_type": "array", "shape": [40], "chunk_grid":'
    b' {"name": "regular", "configuration": {"chunk_shape": [2]}}, "dimension_names": ["t"]}'
)
PATH = NodePath("/a")


def stored_repository() -> dict[str, bytes]:
    """Every object of a repository with all kinds of references, refs and log entries."""
    store = MemoryStore()
    repository = Repository.create(store)
    session = repository.writable_session("main")
    session.set_node(PATH, ARRAY)
    session.set_chunk(PATH, (0,), b"inline")
    session.set_chunk(PATH, (1,), b"native" * 200)
    index = np.arange(5, 20, dtype=np.uint32).reshape(-1, 1)
    places = [f"s3://bucket/file-{i}.nc" for i in range(15)]
    session.set_chunk_refs(PATH, ChunkRefs.virtual(index, places, 7, 8, etag=["e"] * 15))
    session.commit("all kinds", {"key": [1, {"a": None}]})
    repository.create_tag("v1", repository.lookup_branch("main"))
    repository.delete_tag("v1")
    return {info.key: bytes(store.get(info.key).data) for info in store.list()}


STORED = stored_repository()
KINDS = (REPO_INFO, SNAPSHOTS, MANIFESTS, TRANSACTIONS)
UNREAD = transaction_key(INITIAL_SNAPSHOT)


def files_of(kind: str) -> list[str]:
    """All but the log of the initial snapshot: nobody asks what changed before the beginning."""
    return sorted({key for key in STORED if key.startswith(kind)} - {UNREAD})


def read_everything(store: MemoryStore) -> None:
    repository = Repository.open(store)
    tip = repository.lookup_branch("main")
    session = repository.readonly_session(Branch("main"))
    for node in session.nodes():
        if node.array is not None:
            for refs in session.chunk_refs(node.path):
                refs.location.to_list()
                [refs.payload(row) for row in range(len(refs))]
            session.fetch_chunk(node.path, (1,))
    list(repository.ancestry(Branch("main")))
    list(repository.ops_log())
    repository.diff(INITIAL_SNAPSHOT, tip)


def damaged(key: str, data: bytes) -> MemoryStore:
    store = MemoryStore()
    for other, stored in STORED.items():
        store.put(other, data if other == key else stored)
    return store


def truncations(data: bytes) -> Iterator[bytes]:
    yield from (data[:length] for length in range(0, len(data), 7))


def foreign(data: bytes) -> Iterator[bytes]:
    yield from (b"", b"\0" * 100, b"PK\x03\x04" + bytes(80), b"\x89HDF\r\n\x1a\n" + bytes(60))
    yield data[:36] + b"\x03" + data[37:]  # from the future
    yield data[:37] + b"\x05" + data[38:]  # another kind of file
    yield data[:38] + b"\x09" + data[39:]  # unknown compression


@pytest.mark.parametrize("damage", [truncations, foreign])
@pytest.mark.parametrize("kind", KINDS)
def test_a_truncated_or_foreign_file_is_refused_by_name(
    kind: str, damage: Callable[[bytes], Iterator[bytes]]
) -> None:
    for key in files_of(kind):
        for data in damage(STORED[key]):
            with pytest.raises(FormatError) as caught:
                read_everything(damaged(key, data))
            assert str(caught.value).startswith(f"{key}: "), data[:60]


@given(st.sampled_from(KINDS), st.data())
def test_a_file_with_flipped_bits_is_refused_or_read(kind: str, data: st.DataObject) -> None:
    key = data.draw(st.sampled_from(files_of(kind)))
    content = bytearray(STORED[key])
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(content) - 1))
        content[place] ^= 1 << data.draw(st.integers(0, 7))
    # A flip may also turn an id or a length into another valid one: then something else is not
    # found. Anything but an error of ours is a failure of the reader.
    with suppress(IcechunkError):
        read_everything(damaged(key, bytes(content)))


def test_an_undamaged_copy_is_read() -> None:
    read_everything(damaged("none", b""))
