"""Damaged files are refused with FormatError, or read; nothing else happens."""

from collections.abc import Callable
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.describe.dump import dump
from frazil.errors import FormatError
from frazil.format.chunk_refs import ChunkRefs
from frazil.format.config_codec import decode_config
from frazil.format.envelope import FileType, decode_envelope, decode_header, encode_envelope
from frazil.format.locations import CompressedLocations, LocationCompression
from frazil.format.manifest import Manifest, decode_manifest, encode_manifest
from frazil.format.projections import decode_chunk_ids, decode_manifest_files, decode_storage_refs
from frazil.format.repo_info import decode_repo_info, encode_repo_info
from frazil.format.snapshot import decode_snapshot, decode_snapshot_lazily, encode_snapshot
from frazil.format.transaction_log import decode_txlog, encode_txlog
from frazil.maintenance.stats import pieces_of
from tests.unit.format.samples import (
    ARRAY_ID,
    MANIFEST_ID,
    sample_log,
    sample_manifest,
    sample_nodes,
    sample_repo_info,
    sample_snapshot,
    snapshot_v1,
)


def compressed_manifest() -> bytes:
    names = [f"s3://bucket/a/long/prefix/of/many/files/file-{place:05}.nc" for place in range(40)]
    refs = ChunkRefs.virtual(np.arange(40, dtype=np.uint32).reshape(-1, 1), names, 0, 1)
    manifest = Manifest(MANIFEST_ID, {ARRAY_ID: refs})
    data = encode_manifest(manifest, location_compression=LocationCompression(10))
    found = decode_manifest(data).arrays[ARRAY_ID].location
    assert isinstance(found, CompressedLocations)  # or the tests would not test it
    return data


def read_repo_info(data: bytes) -> None:
    info = decode_repo_info(data)
    for row in range(len(info.snapshots)):
        info.snapshots.message(row)
        info.snapshots.metadata(row)
        info.snapshots.pruned_logs(row)
    decode_config(info.config or {})
    list(info.updates)


def read_snapshot(data: bytes) -> None:
    with suppress(FormatError):  # it may not need what is damaged, or refuse what others do not
        decode_manifest_files([data, data])
    with suppress(FormatError):
        nodes = decode_snapshot_lazily(data).nodes
        for asked in (node.path for node in sample_nodes()):
            found = nodes.lookup(asked)
            assert found is None or found.path == asked
    list(decode_snapshot(data).nodes)


def read_manifest(data: bytes) -> None:
    with suppress(FormatError):
        decode_chunk_ids([data, data])
    with suppress(FormatError):
        list(pieces_of(decode_storage_refs([data, data])))
    for refs in decode_manifest(data).arrays.values():
        for row in range(len(refs)):
            refs.payload(row)
        refs.location.to_list()
        refs.lookup(refs.index)


FILES: dict[str, tuple[bytes, Callable[[bytes], object]]] = {
    "repo info": (encode_repo_info(sample_repo_info()), read_repo_info),
    "snapshot": (encode_snapshot(sample_snapshot()), read_snapshot),
    "old snapshot": (
        snapshot_v1(sample_nodes(), [(10, 10), ()], metadata={"k": [1, "x"]}),
        read_snapshot,
    ),
    "manifest": (encode_manifest(sample_manifest()), read_manifest),
    "compressed manifest": (compressed_manifest(), read_manifest),
    "transaction log": (encode_txlog(sample_log()), decode_txlog),
}
parametrized = pytest.mark.parametrize("name", FILES)


def payload_of(data: bytes) -> tuple[FileType, int, bytes]:
    header = decode_header(data)
    found = decode_envelope(data, header.file_type)
    return header.file_type, header.spec_version, found.data


@st.composite
def damage(draw: st.DrawFn, data: bytes) -> bytes:
    """`data` with bytes changed, numbers replaced, pieces cut out or repeated."""
    out = bytearray(data)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, len(out) - 1)))
        match draw(st.integers(0, 4)):
            case 0:
                out[at : at + 1] = draw(st.binary(min_size=1, max_size=1))
            case 1:
                number = draw(st.sampled_from([0, 1, 4, 255, 2**16, 2**31 - 1, 2**31, 2**32 - 1]))
                at -= at % 4
                out[at : at + 4] = number.to_bytes(4, "little")
            case 2:
                del out[at:]
            case 3:
                out[at:at] = draw(st.binary(max_size=9))
            case 4:
                stop = draw(st.integers(at, min(len(out), at + 40)))
                out[at:at] = out[at:stop]
    return bytes(out)


@parametrized
@given(st.data())
def test_a_damaged_file_is_refused_or_read(name: str, data: st.DataObject) -> None:
    content, read = FILES[name]
    damaged = data.draw(damage(content))
    with suppress(FormatError):
        read(damaged)
    with suppress(FormatError):
        dump(damaged)


@parametrized
@given(st.data())
def test_a_damaged_payload_is_refused_or_read(name: str, data: st.DataObject) -> None:
    content, read = FILES[name]
    file_type, spec_version, payload = payload_of(content)
    damaged = data.draw(damage(payload))
    with suppress(FormatError):
        read(encode_envelope(damaged, file_type, spec_version=spec_version))


@parametrized
@given(st.binary(max_size=200))
def test_a_random_payload_is_refused_or_read(name: str, payload: bytes) -> None:
    content, read = FILES[name]
    file_type, spec_version, _ = payload_of(content)
    with suppress(FormatError):
        read(encode_envelope(payload, file_type, spec_version=spec_version))


@parametrized
def test_a_file_cut_off_anywhere_is_refused(name: str) -> None:
    content, read = FILES[name]
    for stop in range(len(content)):
        with pytest.raises(FormatError):
            read(content[:stop])


@parametrized
def test_one_flipped_bit_of_the_payload_is_refused_or_read(name: str) -> None:
    content, read = FILES[name]
    file_type, spec_version, payload = payload_of(content)
    for at in range(0, len(payload), 1 + len(payload) // 1000):
        damaged = bytearray(payload)
        damaged[at] ^= 1 << at % 7
        with suppress(FormatError):
            read(encode_envelope(bytes(damaged), file_type, spec_version=spec_version, level=1))


@parametrized
def test_a_file_of_another_kind_is_refused(name: str) -> None:
    _, read = FILES[name]
    mine = decode_header(FILES[name][0]).file_type
    for content, _ in FILES.values():
        if decode_header(content).file_type is not mine:
            with pytest.raises(FormatError) as caught:
                read(content)
            assert caught.value.kind == "invalid-file-format"
