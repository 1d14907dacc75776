"""Buffers decoded together: as each alone, and nothing in one leads into another."""

import pytest

from frazil.engine.repository import Repository
from frazil.errors import FormatError
from frazil.flatbuf.decode import decode, decode_batch
from frazil.flatbuf.table import Table
from frazil.format.envelope import FileType, decode_envelope
from frazil.format.schemas import SNAPSHOT
from frazil.objectstore.memory import MemoryStore
from frazil.paths import NodePath
from tests.unit.spec.written import GROUP, array_metadata


@pytest.fixture(scope="module")
def payloads() -> list[bytes]:
    """Three snapshots, which say nearly the same."""
    repository = Repository.create(MemoryStore())
    for number in range(3):
        session = repository.writable_session("main")
        if number == 0:
            session.set_node(NodePath("/"), GROUP)
            session.set_node(NodePath("/a"), array_metadata((6,), (1,), dimension_names=["x"]))
        session.set_chunk(NodePath("/a"), (number,), b"data" * 200)
        session.commit(f"commit {number}", {"author": "me"})
    store = repository.store
    keys = sorted(info.key for info in store.list("snapshots/"))
    return [decode_envelope(store.get(key).data, FileType.SNAPSHOT).data for key in keys]


def accepted(buffers: list[bytes]) -> Table | None:
    try:
        return decode_batch(buffers, SNAPSHOT)
    except FormatError:
        return None


def test_each_row_is_what_the_buffer_says_alone(payloads: list[bytes]) -> None:
    together = accepted(payloads)
    assert together is not None
    for row, payload in enumerate(payloads):
        assert together.take(slice(row, row + 1)).equals(decode(payload, SNAPSHOT))


@pytest.mark.parametrize("jump", [0, 4, 100])
def test_what_is_refused_alone_is_refused_in_company(payloads: list[bytes], jump: int) -> None:
    """Every number in a buffer, in turn, is made one that leads into the next."""
    first, refused = payloads[1], 0
    for at in range(0, len(first) - 4, 4):
        damaged = bytearray(first)
        damaged[at : at + 4] = (len(first) - at + jump).to_bytes(4, "little")
        try:
            decode(bytes(damaged), SNAPSHOT)
        except FormatError:
            refused += 1
            assert accepted([payloads[0], bytes(damaged), payloads[2]]) is None, at
    assert refused > 10
