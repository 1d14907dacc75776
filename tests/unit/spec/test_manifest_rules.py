import itertools

import numpy as np
from tests.unit.spec.written import Written, is_ascending, raw_rows

from frazil.flatbuf.table import Table


def chunk_refs(manifest: Table) -> Table:
    return manifest.tables("arrays").rows.tables("refs").rows


def test_arrays_of_a_manifest_ascend_by_node_id(written: Written) -> None:
    for _, manifest in written.tables("manifests/"):
        assert is_ascending(raw_rows(manifest.tables("arrays").rows.struct("node_id").values))


def test_chunk_refs_ascend_by_index(written: Written) -> None:
    longest = 0
    for _, manifest in written.tables("manifests/"):
        refs = manifest.tables("arrays").rows.tables("refs")
        index = refs.rows.vector("index")
        for start, stop in itertools.pairwise(refs.splits.tolist()):
            rows = [tuple(index.row(row).tolist()) for row in range(start, stop)]
            assert is_ascending(rows)
            longest = max(longest, len(rows))
    assert longest > 1


def test_a_chunk_ref_is_of_exactly_one_kind(written: Written) -> None:
    kinds = set[str]()
    for _, manifest in written.tables("manifests/"):
        refs = chunk_refs(manifest)
        present = {
            "inline": refs.string("inline").present,
            "native": refs.struct("chunk_id").present,
            "virtual": refs.string("location").present | refs.string("compressed_location").present,
        }
        assert (np.sum(list(present.values()), axis=0) == 1).all()
        kinds |= {kind for kind, column in present.items() if column.any()}
    assert {"inline", "native"} <= kinds
