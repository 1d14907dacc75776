import itertools

import numpy as np
import pytest

from frazil.flatbuf.decode import decode
from frazil.flatbuf.table import Table
from frazil.format.chunk_refs import ChunkRefs, Inline
from frazil.format.envelope import FileType, decode_envelope
from frazil.format.manifest import Manifest, encode_manifest
from frazil.format.schemas import MANIFEST
from frazil.ids import ManifestId, NodeId
from tests.unit.spec.written import Written, is_ascending, raw_rows


def chunk_refs(manifest: Table) -> Table:
    return manifest.tables("arrays").rows.tables("refs").rows


@pytest.mark.parametrize("chunks", [1, 2000], ids=["small file", "large file"])
def test_arrays_of_a_manifest_ascend_by_node_id(chunks: int) -> None:
    # frazil itself writes one array per manifest; both encoders take any number, in any order
    index = np.arange(chunks, dtype=np.uint32).reshape(-1, 1)
    one = ChunkRefs.from_payloads(index, [Inline(b"x")] * chunks)
    arrays = {NodeId(bytes([first] * 8)): one for first in (9, 200, 1, 128)}
    data = encode_manifest(Manifest(id=ManifestId(bytes(12)), arrays=arrays))
    table = decode(decode_envelope(data, FileType.MANIFEST).data, MANIFEST)
    stored = raw_rows(table.tables("arrays").rows.struct("node_id").values)
    assert [raw[0] for raw in stored] == [1, 9, 128, 200]


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
    assert kinds == {"inline", "native", "virtual"}
