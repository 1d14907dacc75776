from dataclasses import replace

import numpy as np
import pytest

from frazil.errors import FormatError
from frazil.flatbuf.columns import ScalarColumn, StructColumn, VectorColumn
from frazil.flatbuf.table import TableVectorColumn
from frazil.format.envelope import FileType
from frazil.format.repo_info import RepoInfo, decode_repo_info, encode_repo_info
from frazil.format.update_log import (
    Availability,
    BranchCreated,
    BranchDeleted,
    BranchReset,
    CommitAmended,
    ConfigChanged,
    ExpirationRan,
    FeatureFlagChanged,
    GCRan,
    MetadataChanged,
    NewCommit,
    NewDetachedSnapshot,
    RepoInitialized,
    RepoMigrated,
    RepoStatus,
    RepoStatusChanged,
    TagCreated,
    TagDeleted,
    Update,
    UpdateKind,
    UpdateLog,
)
from frazil.ids import INITIAL_SNAPSHOT, SnapshotId
from tests.unit.format.samples import (
    SECOND,
    file_of,
    ids,
    initial_repo_info,
    sample_repo_info,
    tables_of,
)

PLAIN = [
    "spec_version",
    "tags",
    "branches",
    "deleted_tags",
    "status",
    "metadata",
    "before_updates",
    "config",
    "enabled_flags",
    "disabled_flags",
]
A, B = SnapshotId(b"a" * 12), SnapshotId(b"b" * 12)
EVERY_KIND: tuple[UpdateKind, ...] = (
    RepoInitialized(),
    RepoMigrated(1, 2),
    ConfigChanged(),
    MetadataChanged(),
    TagCreated("tag"),
    TagDeleted("tag", A),
    BranchCreated("branch"),
    BranchDeleted("branch", A),
    BranchReset("branch", B),
    NewCommit("main", A),
    CommitAmended("main", A, B),
    NewDetachedSnapshot(B),
    GCRan(),
    ExpirationRan(),
    FeatureFlagChanged(3, new_value=True),
    FeatureFlagChanged(4, new_value=False),
    FeatureFlagChanged(5, new_value=None),
    RepoStatusChanged(RepoStatus(Availability.READ_ONLY, 7, "why")),
)


def assert_same(left: RepoInfo, right: RepoInfo) -> None:
    assert {name: getattr(left, name) for name in PLAIN} == {
        name: getattr(right, name) for name in PLAIN
    }
    assert list(left.updates) == list(right.updates)
    assert left.snapshots.table.equals(right.snapshots.table)


def test_repo_info_decodes_to_what_was_encoded() -> None:
    info = sample_repo_info()
    assert_same(decode_repo_info(encode_repo_info(info)), info)
    assert_same(decode_repo_info(encode_repo_info(initial_repo_info())), initial_repo_info())


def test_every_kind_of_update_comes_back() -> None:
    updates = tuple(
        Update(kind, 10 * place, f"repo.{place}" if place % 2 else None)
        for place, kind in enumerate(EVERY_KIND)
    )
    info = decode_repo_info(encode_repo_info(replace(sample_repo_info(), updates=updates)))
    assert tuple(info.updates) == updates


def test_an_ops_log_is_a_sequence() -> None:
    log = UpdateLog.of([Update(kind, place) for place, kind in enumerate(EVERY_KIND)])
    assert len(log) == len(EVERY_KIND)
    assert log[-1].kind == EVERY_KIND[-1]
    assert [update.kind for update in log[1:3]] == list(EVERY_KIND[1:3])
    assert UpdateLog.of(log) is log
    with pytest.raises(IndexError):
        log[len(EVERY_KIND)]


def test_a_snapshot_is_inserted_in_order_and_everything_still_points_where_it_did() -> None:
    info = initial_repo_info().with_tag("first", INITIAL_SNAPSHOT)
    parent = INITIAL_SNAPSHOT
    history = [SnapshotId(bytes([first]) * 12) for first in (200, 3, 100, 1, 255)]
    for place, new in enumerate(history):
        info = info.with_snapshot(new, parent, 1000 + place, f"commit {place}", {"n": place})
        info = info.with_branch("main", new)
        parent = new
    raw = [row.tobytes() for row in info.snapshots.ids]
    assert raw == sorted(raw)
    assert info.snapshot_of_tag("first") == INITIAL_SNAPSHOT
    assert info.snapshot_of_branch("main") == history[-1]
    row, found = info.branches["main"], []
    while row >= 0:
        found.append(info.snapshots.id(row))
        row = int(info.snapshots.parents[row])
    assert found == [*reversed(history), INITIAL_SNAPSHOT]
    middle = info.snapshots.find(history[2])
    assert info.snapshots.message(middle) == "commit 2"
    assert info.snapshots.metadata(middle) == {"n": 2}
    assert int(info.snapshots.flushed_at_us[middle]) == 1002
    assert_same(decode_repo_info(encode_repo_info(info)), info)


def test_a_snapshot_that_is_not_listed_is_not_found() -> None:
    snapshots = sample_repo_info().snapshots
    assert snapshots.find(SECOND) >= 0
    assert snapshots.find(SnapshotId(bytes(12))) == -1
    assert snapshots.find(SnapshotId(b"\xff" * 12)) == -1
    assert sample_repo_info().snapshot_of_branch("none") is None
    assert sample_repo_info().snapshot_of_tag("none") is None


def test_a_snapshot_cannot_be_listed_twice() -> None:
    with pytest.raises(FormatError, match="already") as caught:
        sample_repo_info().with_snapshot(SECOND, None, 1, "", {})
    assert caught.value.kind == "duplicate-snapshot-id"


def test_parents_and_refs_must_be_listed() -> None:
    info = initial_repo_info()
    with pytest.raises(FormatError, match="not listed"):
        info.with_snapshot(SECOND, A, 1, "", {})
    with pytest.raises(FormatError, match="not listed"):
        info.with_branch("main", A)


def test_a_deleted_tag_is_remembered() -> None:
    info = sample_repo_info().without_tag("v1")
    assert list(info.tags) == ["v2"]
    assert info.deleted_tags == ("gone", "v1")


def test_a_deleted_branch_is_gone() -> None:
    assert sample_repo_info().without_branch("main").branches == {}


def test_refs_are_stored_in_order_of_their_bytes() -> None:
    info = initial_repo_info()
    for name in ("z", "ä", "a-b", "a", "A", "a/b"):
        info = info.with_branch(name, INITIAL_SNAPSHOT).with_tag(name, INITIAL_SNAPSHOT)
    info = replace(info, deleted_tags=("z", "é", "a"))
    root = tables_of(encode_repo_info(info))
    for column in (root.tables("tags"), root.tables("branches")):
        names = [name or b"" for name in column.rows.string("name").to_list()]
        assert names == sorted(names)
    assert root.strings("deleted_tags").row(0) == [b"a", b"z", "é".encode()]


def test_snapshots_out_of_order_are_put_in_order() -> None:
    root = tables_of(encode_repo_info(sample_repo_info()))
    column = root.tables("snapshots")
    backwards = column.rows.take(np.array([1, 0])).replace(
        parent_offset=ScalarColumn.of(1 - sample_repo_info().snapshots.parents[::-1], "i4")
    )
    parents = np.where(
        sample_repo_info().snapshots.parents[::-1] < 0,
        -1,
        1 - sample_repo_info().snapshots.parents[::-1],
    )
    backwards = backwards.replace(parent_offset=ScalarColumn.of(parents, "i4"))
    swapped = {
        name: TableVectorColumn.of(
            root.tables(name).rows.replace(
                snapshot_index=ScalarColumn.of(
                    1 - root.tables(name).rows.scalar("snapshot_index").values, "u4"
                )
            )
        )
        for name in ("tags", "branches")
    }
    odd = root.replace(snapshots=TableVectorColumn.of(backwards), **swapped)
    found = decode_repo_info(file_of(odd, FileType.REPO_INFO))
    assert found.snapshot_of_branch("main") == SECOND
    assert found.snapshot_of_tag("v1") == INITIAL_SNAPSHOT
    row = found.snapshots.find(SECOND)
    assert found.snapshots.id(int(found.snapshots.parents[row])) == INITIAL_SNAPSHOT


@pytest.mark.parametrize("parent", [-2, 2, 2**31 - 1])
def test_a_parent_outside_the_list_is_refused(parent: int) -> None:
    root = tables_of(encode_repo_info(sample_repo_info()))
    rows = root.tables("snapshots").rows
    bad = rows.replace(parent_offset=ScalarColumn.of([parent, -1], "i4"))
    with pytest.raises(FormatError, match="parent"):
        decode_repo_info(
            file_of(root.replace(snapshots=TableVectorColumn.of(bad)), FileType.REPO_INFO)
        )


def test_a_branch_outside_the_list_is_refused() -> None:
    root = tables_of(encode_repo_info(sample_repo_info()))
    refs = root.tables("branches").rows.replace(snapshot_index=ScalarColumn.of([2], "u4"))
    with pytest.raises(FormatError, match="branch or tag"):
        decode_repo_info(
            file_of(root.replace(branches=TableVectorColumn.of(refs)), FileType.REPO_INFO)
        )


def test_logs_of_pruned_ancestors_are_read_and_kept() -> None:
    root = tables_of(encode_repo_info(sample_repo_info()))
    rows = root.tables("snapshots").rows
    pruned = VectorColumn(ids(A.raw, B.raw), np.array([0, 0, 2]), np.array([False, True]))
    changed = rows.replace(pruned_ancestor_tx_logs=pruned)
    data = file_of(root.replace(snapshots=TableVectorColumn.of(changed)), FileType.REPO_INFO)
    info = decode_repo_info(data)
    assert info.snapshots.pruned_logs(0) == []
    assert info.snapshots.pruned_logs(1) == [A.raw, B.raw]
    again = decode_repo_info(encode_repo_info(info.with_snapshot(A, SECOND, 1, "", {})))
    row = again.snapshots.find(info.snapshots.id(1))
    assert again.snapshots.pruned_logs(row) == [A.raw, B.raw]
    assert StructColumn.of(ids(A.raw)).values.shape == (1, 12)
