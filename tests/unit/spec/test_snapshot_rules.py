import itertools

import numpy as np

from frazil.flatbuf.table import Table
from frazil.format.schemas import NODE_ARRAY
from tests.unit.spec.written import Written, is_ascending, raw_rows


def arrays(snapshot: Table) -> Table:
    """The array nodes of a snapshot."""
    return snapshot.tables("nodes").rows.union("node_data").variants[NODE_ARRAY]


def test_a_snapshot_does_not_name_its_parent(written: Written) -> None:
    for _, snapshot in written.tables("snapshots/"):
        assert not snapshot.struct("parent_id").present.any()


def test_nodes_ascend_by_path_in_the_order_the_reference_searches(written: Written) -> None:
    listings = [
        snapshot.tables("nodes").rows.string("path").to_list()
        for _, snapshot in written.tables("snapshots/")
    ]
    longest = max(listings, key=len)
    assert longest.index(b"/a-b") < longest.index(b"/a/b")  # raw bytes, not components
    assert all(is_ascending(listing) for listing in listings)


def test_metadata_ascends_by_name(written: Written) -> None:
    listings = [
        snapshot.tables("metadata").rows.string("name").to_list()
        for _, snapshot in written.tables("snapshots/")
    ]
    assert [b"aa", b"mm", b"zz"] in listings
    assert all(is_ascending(listing) for listing in listings)


def test_the_manifest_list_of_version_1_is_empty(written: Written) -> None:
    for _, snapshot in written.tables("snapshots/"):
        column = snapshot.vector("manifest_files")
        assert column.present.all()
        assert len(column.values) == 0


def test_the_manifest_list_of_version_2_is_complete_and_ascends_by_id(written: Written) -> None:
    counts = []
    for _, snapshot in written.tables("snapshots/"):
        files = snapshot.tables("manifest_files_v2").rows
        ids = raw_rows(files.struct("id").values)
        used = {*raw_rows(arrays(snapshot).tables("manifests").rows.struct("object_id").values)}
        assert is_ascending(ids)
        assert set(ids) == used
        counts.append(len(ids))
    assert max(counts) > 3


def test_a_manifest_list_says_how_large_the_files_are(written: Written) -> None:
    manifests = dict(written.tables("manifests/"))
    by_id = {table.struct("id").values[0].tobytes(): key for key, table in manifests.items()}
    checked = 0
    for _, snapshot in written.tables("snapshots/"):
        files = snapshot.tables("manifest_files_v2").rows
        for row, raw in enumerate(raw_rows(files.struct("id").values)):
            key = by_id[raw]
            refs = manifests[key].tables("arrays").rows.tables("refs").rows
            assert files.struct("id").present[row]
            assert files.scalar("size_bytes").values[row] == written.store.head(key).size_bytes
            assert files.scalar("num_chunk_refs").values[row] == len(refs)
            checked += 1
    assert checked > 3


def test_the_shape_of_version_1_is_empty_and_that_of_version_2_is_there(written: Written) -> None:
    checked = 0
    for _, snapshot in written.tables("snapshots/"):
        nodes = arrays(snapshot)
        assert nodes.vector("shape").present.all()
        assert len(nodes.vector("shape").values) == 0
        assert nodes.tables("shape_v2").present.all()
        checked += len(nodes)
    assert checked > 3


def test_the_extents_of_an_arrays_manifests_do_not_overlap(written: Written) -> None:
    pairs = 0
    for _, snapshot in written.tables("snapshots/"):
        manifests = arrays(snapshot).tables("manifests")
        for start, stop in itertools.pairwise(manifests.splits.tolist()):
            boxes = [manifests.rows.vector("extents").row(row) for row in range(start, stop)]
            ranges = [np.ascontiguousarray(box).view("<u4").reshape(-1, 2) for box in boxes]
            for left, right in itertools.combinations(ranges, 2):
                meet = np.maximum(left[:, 0], right[:, 0]) < np.minimum(left[:, 1], right[:, 1])
                assert not meet.all()
                pairs += 1
    assert pairs > 10
