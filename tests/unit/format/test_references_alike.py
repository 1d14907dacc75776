"""References that are alike are written without columns; what is read is the same."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.format import manifest as manifests
from frazil.format.chunk_refs import ChunkRefs, Inline, Native, Payload, Virtual
from frazil.format.manifest import Manifest, decode_manifest, encode_manifest
from frazil.ids import ChunkId, ManifestId, NodeId

payloads = st.one_of(
    st.builds(Inline, st.binary(max_size=3)),
    st.builds(Native, st.binary(min_size=12, max_size=12).map(ChunkId), st.just(0), st.just(9)),
    st.builds(Native, st.just(ChunkId(bytes(12))), st.integers(0, 2**63), st.integers(0, 2**63)),
    st.builds(Virtual, st.just("s3://b/k"), st.just(0), st.just(9), st.none()),
)


def written(listed: list[Payload], ndim: int) -> ChunkRefs:
    index = np.stack(np.unravel_index(np.arange(len(listed)), (100,) * ndim), axis=1)
    return ChunkRefs.from_payloads(index, listed)


def columns_of(few: int, refs: ChunkRefs, spec_version: int) -> bytes:
    """The payload of a manifest, with columns from so many references on."""
    made = Manifest(ManifestId(bytes(12)), {NodeId(bytes(8)): refs, NodeId(b"\1" * 8): refs})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifests, "_FEW_ALIKE", few)
        return encode_manifest(made, spec_version=spec_version)


@given(
    st.one_of(
        st.lists(payloads, min_size=1, max_size=20),
        st.tuples(payloads, st.integers(5, 70)).map(lambda pair: [pair[0]] * pair[1]),
        st.lists(st.binary(min_size=2, max_size=2).map(Inline), min_size=5, max_size=70),
    ),
    st.integers(1, 3),
    st.integers(1, 2),
)
def test_they_are_read_as_if_they_were_columns(
    listed: list[Payload], ndim: int, spec_version: int
) -> None:
    refs = written(listed, ndim)
    for few in (0, 10_000):
        found = decode_manifest(columns_of(few, refs, spec_version)).arrays
        assert [each.equals(refs) for each in found.values()] == [True, True]
