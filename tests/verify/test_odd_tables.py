"""Damage that the encoders do not make, on tables made by hand; and storage that fails."""

from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.engine.files.object_keys import (
    MANIFESTS,
    REPO_INFO,
    TRANSACTIONS,
    snapshot_key,
    transaction_key,
)
from frazil.engine.repository import Repository
from frazil.errors import StorageError
from frazil.flatbuf.columns import VectorColumn
from frazil.flatbuf.decode import decode
from frazil.flatbuf.encode import encode_parts
from frazil.flatbuf.table import Table, TableVectorColumn, UnionColumn
from frazil.format.envelope import FileType, decode_envelope, encode_envelope
from frazil.format.schemas import CHUNK_INDICES, IDENTIFIER, TRANSACTION_LOG
from frazil.ids import INITIAL_SNAPSHOT
from frazil.maintenance.repair.repair_store import repair
from frazil.maintenance.verify.file_reader import OpenedFile
from frazil.maintenance.verify.node_checks import Seen, check_nodes
from frazil.maintenance.verify.problems import MOST_ROWS, Place, Problem, problems_of_rows
from frazil.maintenance.verify.repo_info_checks import check_ops_log
from frazil.maintenance.verify.stored_objects import list_everything
from frazil.maintenance.verify.verify_store import verify
from frazil.objectstore.memory import MemoryStore
from frazil.objectstore.wrappers import Verb
from frazil.paths import NodePath
from frazil.testing.hooked_store import HookedStore
from tests.examples_count import scaled
from tests.unit.spec.written import GROUP, array_metadata
from tests.verify.damage import copied, healthy, keys, raw, tip_key, with_rows


@cache
def once() -> MemoryStore:
    return healthy(2)


@dataclass(frozen=True)
class UnionChange:
    """The first row is of a type that nobody knows, as the decoder shows it."""

    name: str
    number: int

    def __call__(self, table: Table) -> Table:
        data = table.union(self.name)
        types, index = data.types.copy(), data.index.copy()
        types[0], index[0] = self.number, -1
        # Not by `replace`, which refuses it: only the decoder makes such a table.
        columns = {**table.columns, self.name: UnionColumn(types, index, data.variants)}
        return Table(table.schema, len(table), MappingProxyType(columns))


def test_a_node_that_is_neither_array_nor_group_is_found() -> None:
    opened = raw(once(), tip_key(once()))
    root = with_rows(opened.root, "nodes", UnionChange("node_data", 9))
    problems: list[Problem] = []
    changed = OpenedFile(opened.key, 2, root, opened.size_bytes)
    check_nodes(changed, Seen(), problems, with_metadata=False)
    assert [one.kind for one in problems] == ["node-kind"]


def test_an_update_of_an_unknown_kind_is_found() -> None:
    root = with_rows(raw(once(), REPO_INFO).root, "latest_updates", UnionChange("update_type", 99))
    problems: list[Problem] = []
    check_ops_log(once(), root, list_everything(once(), []), problems)
    assert [one.kind for one in problems] == ["ops-log-unknown-update"]


class Failing(HookedStore[MemoryStore]):
    """Some objects are listed, and cannot be read."""

    def __init__(self, broken: set[str]) -> None:
        super().__init__(MemoryStore(), before=self._fail)
        self.broken = broken

    def _fail(self, verb: Verb, key: str) -> None:
        if verb == "get" and key in self.broken:
            raise StorageError(f"cannot read {key!r}: I/O error")


def test_what_the_storage_fails_to_give_is_a_problem_and_not_the_end() -> None:
    source = copied(once())
    broken = {keys(source, folder)[0] for folder in (MANIFESTS, TRANSACTIONS)}
    broken.add(snapshot_key(INITIAL_SNAPSHOT))  # another may be all that needs the manifest
    store = Failing(broken)
    for key in keys(source, ""):
        store.put(key, bytes(source.get(key).data))
    report = verify(store)
    failed = {one.place.file for one in report.problems if one.kind == "file-unreadable"}
    assert failed == broken
    assert report.refs.native > 0


def test_of_many_alike_a_hundred_are_listed_and_the_rest_counted() -> None:
    index = np.arange(1000, dtype=np.uint32).reshape(-1, 1)
    rows = np.arange(1000, dtype=np.int64)
    found = problems_of_rows("chunk-missing", Place("f", "/a"), rows, index, lambda _: "gone")
    assert len(found) == MOST_ROWS + 1
    assert sum(one.count for one in found) == 1000
    assert found[3].place.chunk == (3,)


@settings(max_examples=scaled(12))
@given(st.permutations([0, 4, 8]), st.sampled_from([1, 2]))
def test_chunks_manifest_by_manifest_are_in_order_in_version_1(
    starts: list[int], version: int
) -> None:
    """As icechunk 1.1.21 lists them where manifests are split: sorted in each of them only."""
    repository = Repository.create(MemoryStore(), spec_version=version)
    session = repository.writable_session("main")
    session.set_node(NodePath("/"), GROUP)
    session.set_node(NodePath("/a"), array_metadata((12,), (1,)))
    for at in range(12):
        session.set_chunk(NodePath("/a"), (at,), b"data")
    first = session.commit("data", {})
    store = repository.store
    order = np.array([[start + at] for start in starts for at in range(4)], dtype=np.uint32)
    stored = decode_envelope(store.get(transaction_key(first)).data, FileType.TRANSACTION_LOG)
    root = decode(stored.data, TRANSACTION_LOG)
    arrays = root.tables("updated_chunks").rows
    indices = Table.build(CHUNK_INDICES, 12, coords=VectorColumn.regular(order))
    chunks = TableVectorColumn.of(indices, np.array([0, 12]))
    root = root.replace(updated_chunks=TableVectorColumn.of(arrays.replace(chunks=chunks)))
    payload = encode_parts(root, identifier=IDENTIFIER)
    data = encode_envelope(payload, FileType.TRANSACTION_LOG, spec_version=version)
    store.put(transaction_key(first), data)

    report = verify(store)
    if starts == [0, 4, 8]:
        assert report.problems == ()
    elif version == 1:
        assert report.ok
        assert [one.kind for one in report.problems] == ["log-chunks-in-old-order"]
        assert not repair(store).steps
    else:
        assert [one.kind for one in report.problems] == ["log-chunks-unsorted"]
    found = Repository.open(store).diff(INITIAL_SNAPSHOT, first)
    assert found.updated_chunks[NodePath("/a")].tolist() == [[at] for at in range(12)]
