"""Whatever is done to the bytes of a repository, verify lists problems, and never fails itself."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.engine.files.object_keys import CHUNKS, OVERWRITTEN
from frazil.engine.refs.version import Branch, Exactly
from frazil.engine.repository import Repository
from frazil.errors import IcechunkError
from frazil.maintenance.repair.repair_store import repair
from frazil.maintenance.verify.verify_store import verify
from frazil.objectstore.memory import MemoryStore
from tests.examples_count import scaled
from tests.verify.damage import healthy

STORED = {
    version: {info.key: bytes(store.get(info.key).data) for info in store.list()}
    for version in (1, 2)
    for store in [healthy(version)]
}


def read_everything(store: MemoryStore) -> None:
    """All that readers of any snapshot touch, but for the bytes of chunks."""
    repository = Repository.open(store)
    if repository.spec_version == 2:
        list(repository.ops_log())
    for record in repository.ancestry(Branch("main")):
        session = repository.readonly_session(Exactly(record.id))
        for node in session.nodes():
            if node.array is not None:
                for refs in session.chunk_refs(node.path):
                    [refs.payload(row) for row in range(len(refs))]
        if record.parent_id is not None:
            repository.diff(record.parent_id, record.id)


def stumbles(store: MemoryStore) -> bool:
    try:
        read_everything(store)
    except IcechunkError:
        return True
    return False


@st.composite
def damaged(draw: st.DrawFn) -> MemoryStore:
    """One to three files with flipped bits, cut off, swapped or gone."""
    files = dict(STORED[draw(st.sampled_from([1, 2]))])
    names = sorted(key for key in files if not key.startswith((CHUNKS, OVERWRITTEN)))
    for _ in range(draw(st.integers(1, 3))):
        key = draw(st.sampled_from(names))
        match draw(st.sampled_from(["flip", "flip", "flip", "cut", "swap", "lose"])):
            case "flip" if files.get(key):
                content = bytearray(files[key])
                place = draw(st.integers(0, len(content) - 1))
                content[place] ^= 1 << draw(st.integers(0, 7))
                files[key] = bytes(content)
            case "cut" if key in files:
                files[key] = files[key][: draw(st.integers(0, len(files[key])))]
            case "swap":
                files[key] = files.get(draw(st.sampled_from(names)), b"")
            case _:
                files.pop(key, None)
    store = MemoryStore()
    for key, data in files.items():
        store.put(key, data)
    return store


@given(damaged())
@settings(max_examples=scaled(150))
def test_what_readers_stumble_over_is_found(store: MemoryStore) -> None:
    report = verify(store)
    assert report.problems or not stumbles(store)


@given(damaged())
@settings(max_examples=scaled(40))
def test_a_repair_ends_and_makes_nothing_worse(store: MemoryStore) -> None:
    result = repair(store)
    assert len(result.after.errors) <= len(result.before.errors)
    again = repair(store)
    assert again.steps == ()


@pytest.mark.parametrize("version", [1, 2])
def test_an_undamaged_one_is_read_and_has_no_problems(version: int) -> None:
    store = MemoryStore()
    for key, data in STORED[version].items():
        store.put(key, data)
    read_everything(store)
    assert verify(store).problems == ()
