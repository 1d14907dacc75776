import itertools

import numpy as np
import pytest

from frazil.engine.refs.version import Branch
from frazil.engine.repository import Repository
from frazil.errors import AlreadyExistsError, SessionStateError
from frazil.flatbuf.decode import decode
from frazil.flatbuf.table import Table
from frazil.format.envelope import FileType, decode_envelope
from frazil.format.schemas import TRANSACTION_LOG
from frazil.format.transaction_log import Move, TransactionLog, decode_txlog, encode_txlog
from frazil.ids import INITIAL_SNAPSHOT, NodeId, SnapshotId
from frazil.objectstore.memory import MemoryStore
from frazil.paths import ROOT, NodePath
from tests.unit.engine.conftest import GROUP
from tests.unit.spec.written import Written, is_ascending, raw_rows

GROUPS = ("new_groups", "deleted_groups", "updated_groups")
ARRAYS = ("new_arrays", "deleted_arrays", "updated_arrays")


def ids(log: Table, field: str) -> list[bytes]:
    return raw_rows(log.vector(field).values)


def test_the_first_transaction_log_is_empty(written: Written) -> None:
    log = written.table(f"transactions/{INITIAL_SNAPSHOT}")
    assert [ids(log, field) for field in GROUPS + ARRAYS] == [[]] * 6
    assert len(log.tables("updated_chunks").rows) == 0
    assert len(log.tables("moved_nodes").rows) == 0


@pytest.mark.parametrize("field", GROUPS + ARRAYS)
def test_node_ids_ascend(written: Written, field: str) -> None:
    listings = [ids(log, field) for _, log in written.tables("transactions/")]
    assert max(map(len, listings)) > 2  # otherwise there is nothing to be in order
    assert all(is_ascending(listing) for listing in listings)


@pytest.mark.parametrize("fields", [GROUPS, ARRAYS])
def test_a_node_is_in_one_list_only(written: Written, fields: tuple[str, ...]) -> None:
    for _, log in written.tables("transactions/"):
        listed = [raw for field in fields for raw in ids(log, field)]
        assert len(set(listed)) == len(listed)


def test_a_group_created_and_edited_in_one_commit_is_only_new(written: Written) -> None:
    first = next(
        log for _, log in written.tables("transactions/") if len(ids(log, "new_arrays")) > 1
    )
    assert len(ids(first, "new_groups")) == 8
    assert ids(first, "updated_groups") == []


def test_updated_chunks_ascend_by_node_and_by_index(written: Written) -> None:
    longest = 0
    for _, log in written.tables("transactions/"):
        arrays = log.tables("updated_chunks").rows
        assert is_ascending(raw_rows(arrays.struct("node_id").values))
        chunks = arrays.tables("chunks")
        coords = chunks.rows.vector("coords")
        for start, stop in itertools.pairwise(chunks.splits.tolist()):
            rows = [tuple(coords.row(row).tolist()) for row in range(start, stop)]
            assert is_ascending(rows)
            longest = max(longest, len(rows))
    assert longest > 3


def test_coordinates_are_one_per_dimension(written: Written) -> None:
    session = written.repository.readonly_session(Branch("main"))
    ndims = {node.id.raw: len(node.array.shape) for node in session.nodes() if node.array}
    seen = set[int]()
    for _, log in written.tables("transactions/"):
        arrays = log.tables("updated_chunks").rows
        chunks = arrays.tables("chunks")
        coords = chunks.rows.vector("coords")
        for row, raw in enumerate(raw_rows(arrays.struct("node_id").values)):
            lengths = {
                len(coords.row(at)) for at in range(chunks.splits[row], chunks.splits[row + 1])
            }
            assert lengths == {ndims.get(raw, 2)}
            seen |= lengths
    assert seen == {0, 2}


def test_moves_ascend_by_the_components_of_where_they_went() -> None:
    targets = ["/a-b", "/b", "/a/b", "/a"]
    moves = tuple(
        Move(NodePath(f"/old{at}"), NodePath(to), NodeId(bytes([at] * 8)), is_array=at == 2)
        for at, to in enumerate(targets)
    )
    log = TransactionLog(id=SnapshotId(bytes(12)), moved=moves)
    payload = decode_envelope(encode_txlog(log), FileType.TRANSACTION_LOG).data
    stored = decode(payload, TRANSACTION_LOG).tables("moved_nodes").rows
    assert stored.string("to").to_list() == [b"/a", b"/a/b", b"/a-b", b"/b"]
    assert stored.string("from").to_list() == [b"/old3", b"/old2", b"/old0", b"/old1"]
    assert stored.scalar("node_type").values.tolist() == [0, 1, 0, 0]
    assert stored.struct("node_id").present.all()
    assert np.asarray(stored.scalar("node_type").present).all()  # also where it is 0, the default


def test_moves_are_recorded_once_for_each_node_that_ended_elsewhere() -> None:
    store = MemoryStore()
    repository = Repository.create(store)
    session = repository.writable_session("main")
    for text in ("/", "/a", "/a/x", "/a/y", "/b", "/c", "/d"):
        session.set_node(NodePath(text), GROUP)
    session.commit("base")
    session = repository.rearrange_session("main")
    for source, target in [
        *(("/a", "/k"), ("/b", "/a"), ("/k", "/b")),  # swapped: the aside is not to be seen
        *(("/b/x", "/b/z"), ("/c", "/e"), ("/e", "/c")),
    ]:
        session.move(NodePath(source), NodePath(target))
    with pytest.raises(AlreadyExistsError):
        session.move(NodePath("/d"), NodePath("/a"))
    with pytest.raises(SessionStateError):
        session.move(NodePath("/d"), NodePath("/missing/d"))
    new = session.commit("moved")
    log = decode_txlog(store.get(f"transactions/{new}").data)
    assert [(move.from_path.text, move.to_path.text) for move in log.moved] == [
        ("/b", "/a"),
        ("/a", "/b"),
        ("/a/y", "/b/y"),
        ("/a/x", "/b/z"),
    ]
    assert not log.deleted_groups.size
    stored = {node.path for node in repository.readonly_session(Branch("main")).nodes()}
    assert all(path.parent in stored for path in stored if path != ROOT)
