"""Files of the generations before version 1, encoded and decoded."""

import json
import math
import struct
from typing import Any

import msgpack  # type: ignore[import-untyped]  # the package has no type information
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from frazil.errors import FormatError, InvalidInputError
from frazil.format.chunk_refs import ETag, LastModified, Virtual
from frazil.format.envelope import FileType
from frazil.format.generation import Generation
from frazil.generations.alpha_encoder import (
    encode_old_manifest,
    encode_old_snapshot,
    pack_snapshot,
    roundtrip_metadata,
)
from frazil.generations.alpha_manifest import decode_old_manifest
from frazil.generations.alpha_metadata import decode_old_config
from frazil.generations.alpha_refs import decode_old_ref, encode_alpha1_ref
from frazil.generations.alpha_snapshot import decode_old_snapshot
from frazil.generations.msgpack_values import (
    format_time,
    id_text,
    is_flatbuffer,
    long_id,
    node_id,
    node_number,
    object_id,
    object_ids,
    parse_time,
    payload,
    unpack,
)
from frazil.ids import ManifestId, SnapshotId, format_base32, format_ids
from tests.conformance.generations import ARCHIVES, repository_files

FOLDERS = {
    "s": FileType.SNAPSHOT,
    "snapshots": FileType.SNAPSHOT,
    "m": FileType.MANIFEST,
    "manifests": FileType.MANIFEST,
}
NAME = ManifestId(bytes(12))


def files_of(kind: FileType, *generations: str) -> list[tuple[str, bytes]]:
    """MessagePack of such files, by archive and path."""
    found = []
    for archive in ARCHIVES:
        if not archive.startswith(generations):
            continue
        for path, data in repository_files(archive).items():
            if FOLDERS.get(path.partition("/")[0]) is kind:
                content = payload(data, kind)
                if not is_flatbuffer(content):
                    found.append((f"{archive}/{path}", content))
    return found


def test_every_snapshot_is_packed_again_byte_for_byte() -> None:
    files = files_of(FileType.SNAPSHOT, "A")
    assert len(files) > 80
    for path, content in files:
        assert pack_snapshot(unpack(content)) == content, path


def test_every_manifest_is_packed_again_byte_for_byte() -> None:
    files = files_of(FileType.MANIFEST, "A")
    assert len(files) > 50
    for path, content in files:
        assert msgpack.packb(unpack(content)) == content, path


def test_snapshots_of_alpha2_are_written_as_the_reference_wrote_them() -> None:
    """But for the time at which a commit began, which nobody remembers."""
    files = files_of(FileType.SNAPSHOT, "A2e")
    for path, content in files:
        name = SnapshotId.parse(path.rpartition("/")[2])
        found = decode_old_snapshot(content, name)
        if found.own_id != name:
            continue  # the first: it is under another name
        again = encode_old_snapshot(found.snapshot, found.history, Generation.A2E)
        before, after = list(unpack(content)), list(unpack(again))
        before[8] = after[8]
        assert pack_snapshot(before) == again, path
    assert len(files) == 6


@pytest.mark.parametrize("generation", ["A2c", "A2d"])
def test_manifests_of_alpha2_are_written_as_the_reference_wrote_them(generation: str) -> None:
    files = files_of(FileType.MANIFEST, generation)
    for path, content in files:
        found = decode_old_manifest(content, NAME).resolved({})
        assert encode_old_manifest(found, Generation.A2E) == content, path
    assert len(files) >= 3


def test_chunks_of_other_arrays_are_left_out_by_who_knows_the_array() -> None:
    """Those of the reference's bug 421: a node with chunks of one and of two dimensions."""
    mixed = {
        (3, (0,)): {"Inline": b"foreign"},
        (3, (1,)): {"Inline": b"foreign"},
        (3, (0, 0)): {"Inline": b"own"},
    }
    found = decode_old_manifest(msgpack.packb((0, {}, mixed)), NAME)
    [node] = found.arrays
    assert found.resolved({node: 2}).arrays[node].index.tolist() == [[0, 0]]
    assert found.resolved({node: 3}).arrays == {}
    assert found.resolved({}).arrays[node].ndim == 1


def test_checksums_of_virtual_chunks_are_read() -> None:
    node = (bytes(8), ())
    chunks = {
        (0,): {"Virtual": ("s3://b/0", 1, 2, None)},
        (1,): {"Virtual": ("s3://b/1", 1, 2, {"LastModified": 7})},
        (2,): {"Virtual": ("s3://b/2", 1, 2, {"ETag": "e"})},
    }
    found = decode_old_manifest(msgpack.packb(((bytes(12), ()), {node: chunks})), NAME)
    [refs] = found.resolved({}).arrays.values()
    assert [refs.payload(row) for row in range(3)] == [
        Virtual("s3://b/0", 1, 2),
        Virtual("s3://b/1", 1, 2, LastModified(7)),
        Virtual("s3://b/2", 1, 2, ETag("e")),
    ]


def test_many_references_become_columns() -> None:
    count = 20_000
    ids = np.random.default_rng(1).integers(0, 256, (count, 12), dtype=np.uint8)
    chunks = {
        (1, (row // 400, row % 400)): {"Ref": (name, row, 2)}
        for row, name in enumerate(format_ids(ids))
    }
    [refs] = decode_old_manifest(msgpack.packb((chunks,)), NAME).resolved({}).arrays.values()
    assert np.array_equal(refs.chunk_id, ids)
    assert np.array_equal(refs.offset, np.arange(count))


# ---- ids and times -------------------------------------------------------------------------


@given(st.binary(min_size=16, max_size=16))
def test_ids_are_the_first_twelve_bytes_in_every_form(raw: bytes) -> None:
    forms = [format_base32(raw), format_base32(raw[:12]), (raw[:12], ())]
    assert {object_id(form, "it") for form in forms} == {raw[:12]}
    for form in forms:
        assert object_ids([form] * 3, "them").tobytes() == raw[:12] * 3
    assert object_ids(forms, "a mixture").tobytes() == raw[:12] * 3
    assert object_id(id_text(raw[:12], long=True), "it") == raw[:12]
    assert len(long_id(raw[:12])) == 16


@given(st.integers(0, 2**32 - 1))
def test_numbers_of_nodes_are_the_end_of_their_ids(number: int) -> None:
    assert node_number(node_id(number)) == number


@pytest.mark.parametrize("bad", [None, True, -1, 2**32, "A", "!" * 13, (b"short", ()), (b"", 1)])
def test_what_is_no_node_id_is_refused(bad: object) -> None:
    with pytest.raises(FormatError):
        node_id(bad)


@pytest.mark.parametrize("bad", [None, 1, "A" * 19, "!" * 20, (b"short", ()), (b"x" * 12, 1)])
def test_what_is_no_object_id_is_refused(bad: object) -> None:
    with pytest.raises(FormatError):
        object_id(bad, "it")
    with pytest.raises(FormatError):
        object_ids([bad, bad], "them")


def test_a_node_without_a_number_cannot_be_written() -> None:
    with pytest.raises(FormatError, match="32 bits"):
        node_number(b"\1" * 8)


@given(st.integers(0, 4_102_444_800_000_000))
@example(0)
@example(1_700_000_000_000_000)
@example(1_700_000_000_120_000)
def test_times_are_read_as_they_were_written(moment_us: int) -> None:
    text = format_time(moment_us)
    assert parse_time(text, "it") == moment_us
    assert len(text.partition(".")[2].removesuffix("Z")) in {0, 3, 6}


def test_nanoseconds_are_dropped() -> None:
    assert parse_time("1970-01-01T00:00:01.504448999Z", "it") == 1_504_448


@pytest.mark.parametrize("bad", ["", "yesterday", "2024-10-11T23:23:33", 5, "1950-01-01T00:00:00Z"])
def test_what_is_no_time_is_refused(bad: object) -> None:
    with pytest.raises(FormatError):
        parse_time(bad, "it")


# ---- refs and configurations ---------------------------------------------------------------


def test_refs_of_alpha1_are_read_as_they_were_written() -> None:
    snapshot = SnapshotId(b"abcdefghijkl")
    data = encode_alpha1_ref(snapshot, 1_000_001)
    found = decode_old_ref(data)
    assert (found.snapshot, found.has_long_id, found.written_at_us) == (snapshot, True, 1_000_001)
    assert len(json.loads(data)["snapshot"]) == 16


@pytest.mark.parametrize(
    "bad",
    [b"", b"[]", b"{}", b'{"snapshot": 1}', b'{"snapshot": "A"}', b'{"snapshot": [1, 2]}',
     b'{"snapshot": [256, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]}',
     b'{"snapshot": "1CECHNKREP0F1RSTCMT0", "timestamp": 5}', b"\xff"],
)  # fmt: skip
def test_what_is_no_ref_is_refused(bad: bytes) -> None:
    with pytest.raises(FormatError):
        decode_old_ref(bad)


def test_containers_in_a_list_are_read() -> None:
    config: Any = decode_old_config(
        b"virtual_chunk_containers:\n"
        b"- {name: a, object_store: S3, prefix: s3://b/, region: r, anonymous: true}\n"
        b"- {name: f, object_store: LocalFileSystem, prefix: file:///d/}\n"
    )
    assert config["virtual_chunk_containers"] == {
        "s3://b/": {
            "name": "a",
            "url_prefix": "s3://b/",
            "store": {"s3_compatible": {"region": "r", "anonymous": True}},
        },
        "file:///d/": {
            "name": "f",
            "url_prefix": "file:///d/",
            "store": {"local_file_system": "file:///d/"},
        },
    }


# ---- zarr metadata -------------------------------------------------------------------------


def document(data_type: object, fill_value: object, **more: object) -> bytes:
    return json.dumps(
        {
            "zarr_format": 3,
            "node_type": "array",
            "shape": [4],
            "data_type": data_type,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": fill_value,
            "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
            **more,
        }
    ).encode()


FLOATS = st.floats(width=32).map(
    lambda x: (
        "NaN" if math.isnan(x) else ("Infinity" if x > 0 else "-Infinity") if math.isinf(x) else x
    )
)
FILLS = st.one_of(
    st.tuples(st.just("bool"), st.booleans()),
    st.tuples(st.just("int8"), st.integers(-128, 127)),
    st.tuples(st.just("uint64"), st.integers(0, 2**64 - 1)),
    st.tuples(st.just("int64"), st.integers(-(2**63), 2**63 - 1)),
    st.tuples(st.just("float32"), FLOATS),
    st.tuples(st.just("float64"), FLOATS),
    st.tuples(st.just("complex64"), st.tuples(FLOATS, FLOATS).map(list)),
    st.tuples(st.just("string"), st.text(st.characters(exclude_categories=["Cs"]))),
    st.tuples(st.just("bytes"), st.just("AAE=")),
)


@given(FILLS, st.dictionaries(st.text("abc"), st.integers(-5, 5)))
def test_metadata_is_kept(fill: tuple[str, object], attributes: dict[str, int]) -> None:
    names = {"dimension_names": ["x"], "attributes": attributes, "storage_transformers": []}
    given_bytes = document(*fill, **names)
    stored = roundtrip_metadata(given_bytes, Generation.A2E)
    assert json.loads(stored) == json.loads(given_bytes)
    assert roundtrip_metadata(stored, Generation.A2E) == stored


def test_a_fill_value_in_bits_is_read_as_the_number_it_is() -> None:
    bits = hex(struct.unpack("<I", struct.pack("<f", 1.5))[0])
    stored = roundtrip_metadata(document("float32", bits), Generation.A2E)
    assert json.loads(stored)["fill_value"] == 1.5


def test_what_has_no_place_is_left_out() -> None:
    group = b'{"zarr_format": 3, "node_type": "group", "consolidated_metadata": {}, "more": 1}'
    assert json.loads(roundtrip_metadata(group, Generation.A2E)) == {
        "zarr_format": 3,
        "node_type": "group",
    }


@pytest.mark.parametrize(
    ("generation", "data_type", "fill_value"),
    [
        (Generation.A2E, "int8", 128),
        (Generation.A2E, "int8", 1.0),
        (Generation.A2E, "float32", "nonsense"),
        (Generation.A2E, "float32", True),
        (Generation.A2E, "complex64", [1]),
        (Generation.A2E, "bytes", "?"),
        (Generation.A2E, {"name": "numpy.datetime64", "configuration": {}}, 0),
        (Generation.A2E, {"name": "raw_bytes", "configuration": {"length_bytes": 2}}, "AAA="),
        (Generation.ALPHA1, "string", ""),
        (Generation.ALPHA1, "bytes", ""),
    ],
)
def test_what_could_not_be_read_again_is_refused(
    generation: Generation, data_type: object, fill_value: object
) -> None:
    with pytest.raises(InvalidInputError, match="bad zarr metadata"):
        roundtrip_metadata(document(data_type, fill_value), generation)


@pytest.mark.parametrize(
    "more",
    [
        {"chunk_key_encoding": {"name": "v2"}},
        {"chunk_grid": {"name": "rectilinear"}},
        {"codecs": [{"no": "name"}]},
        {"codecs": None},
    ],
)
def test_other_metadata_is_refused(more: dict[str, object]) -> None:
    whole = {**json.loads(document("int8", 0)), **more}
    with pytest.raises(InvalidInputError, match="bad zarr metadata"):
        roundtrip_metadata(json.dumps(whole).encode(), Generation.A2E)


def test_raw_bits_are_kept_by_alpha1() -> None:
    raw = {"name": "raw_bytes", "configuration": {"length_bytes": 2}}
    stored = roundtrip_metadata(document(raw, "AQI="), Generation.ALPHA1)
    assert json.loads(stored)["data_type"] == raw
    assert json.loads(stored)["fill_value"] == "AQI="
