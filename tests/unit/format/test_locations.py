import pickle

import numpy as np
import pytest
import zstandard

from frazil.errors import FormatError
from frazil.flatbuf.columns import ScalarColumn, StringColumn
from frazil.flatbuf.strings import Strings
from frazil.format.chunk_refs import ChunkRefs
from frazil.format.envelope import FileType
from frazil.format.locations import (
    CompressedLocations,
    EncodedLocations,
    LocationCompression,
    decode_locations,
    encode_locations,
)
from frazil.format.manifest import Manifest, decode_manifest, encode_manifest
from tests.unit.format.samples import ARRAY_ID, MANIFEST_ID, file_of, tables_of

SMALL = LocationCompression(min_num_chunks=10)
NAMES = [f"s3://bucket/some/long/prefix/year={1980 + i // 12}/file-{i:05}.nc" for i in range(300)]


def column(names: list[str | None]) -> StringColumn:
    return StringColumn.from_list(names)


def compressed(names: list[str | None] | None = None) -> EncodedLocations:
    return encode_locations(column(names or [*NAMES]), SMALL)


def only(frames: StringColumn, dictionary: bytes | None) -> EncodedLocations:
    return EncodedLocations(StringColumn.absent(len(frames)), frames, dictionary)


def test_compressed_locations_come_back() -> None:
    encoded = compressed([*NAMES, None, NAMES[0]])
    found = decode_locations(encoded, 1)
    assert encoded.dictionary is not None
    assert encoded.dictionary[:4] == bytes.fromhex("37a430ec")
    assert not encoded.plain.present.any()
    assert found.to_texts() == [*NAMES, None, NAMES[0]]
    assert found.present.tolist() == [True] * 300 + [False, True]


def test_one_location_is_read_without_the_others() -> None:
    encoded = compressed()
    broken = encoded.compressed.to_list()
    broken[5] = b"not a frame"
    found = decode_locations(only(column_of(broken), encoded.dictionary), 1)
    assert found.text(7) == NAMES[7]
    with pytest.raises(FormatError, match="cannot decompress"):
        found.text(5)
    with pytest.raises(FormatError):
        found.to_texts()


def column_of(items: list[bytes | None]) -> StringColumn:
    return StringColumn.from_list(items)


def test_taking_rows_decompresses_nothing_yet() -> None:
    found = decode_locations(compressed(), 1)
    some = found.take(np.array([3, 1]))
    assert isinstance(some, CompressedLocations)
    assert some.text(0) == NAMES[3]
    assert some.to_texts() == [NAMES[3], NAMES[1]]
    assert len(some) == 2


def test_pruning_leaves_out_the_frames_of_other_rows() -> None:
    encoded = compressed([*NAMES, None])
    broken = encoded.compressed.to_list()
    broken[5] = b"not a frame"
    found = decode_locations(only(column_of(broken), encoded.dictionary), 1)
    some = found.take(np.array([300, 7, 3, 7])).pruned()
    assert some.to_texts() == [None, NAMES[7], NAMES[3], NAMES[7]]
    assert len(some.strings) == 2


def test_compressed_locations_survive_pickling() -> None:
    found = pickle.loads(pickle.dumps(decode_locations(compressed(), 1)))
    assert found.to_texts() == NAMES


def test_frames_that_repeat_are_decompressed_once() -> None:
    encoded = compressed()
    frames = encoded.compressed.strings
    repeated = Strings(frames.heap, np.tile(frames.start, 3), np.tile(frames.length, 3))
    found = decode_locations(only(StringColumn.of(repeated), encoded.dictionary), 1)
    assert found.to_texts() == NAMES * 3
    assert len(found.strings) == len(NAMES)


def test_frames_without_a_content_size_are_read() -> None:
    encoded = compressed()
    assert encoded.dictionary is not None
    dictionary = zstandard.ZstdCompressionDict(encoded.dictionary)
    packer = zstandard.ZstdCompressor(dict_data=dictionary, write_content_size=False)
    frames = column_of([packer.compress(name.encode()) for name in NAMES])
    assert decode_locations(only(frames, encoded.dictionary), 1).to_texts() == NAMES


def test_a_location_that_claims_to_be_huge_is_refused() -> None:
    encoded = compressed()
    assert encoded.dictionary is not None
    dictionary = zstandard.ZstdCompressionDict(encoded.dictionary)
    bomb = zstandard.ZstdCompressor(dict_data=dictionary).compress(bytes(1 << 24))
    assert len(bomb) < 10_000
    found = decode_locations(only(column_of([bomb]), encoded.dictionary), 1)
    with pytest.raises(FormatError, match="too large"):
        found.to_texts()
    with pytest.raises(FormatError):
        found.text(0)


def test_locations_longer_than_the_reference_can_read_stay_plain() -> None:
    long = "s3://bucket/" + "x" * 1013
    encoded = compressed([*NAMES, long])
    assert len(long) == 1025
    assert encoded.plain.to_list() == [None] * 300 + [long.encode()]
    assert encoded.compressed.item(300) is None
    assert decode_locations(encoded, 1).to_texts() == [*NAMES, long]


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(NAMES[:9], id="few"),
        pytest.param(NAMES[:9] * 100, id="few distinct ones"),
        pytest.param([f"{i}" for i in range(300)], id="short ones"),
        pytest.param([f"s3://b/{i:012}" for i in range(300)], id="little in common"),
    ],
)
def test_locations_stay_plain_where_compression_gains_nothing(names: list[str]) -> None:
    encoded = encode_locations(column([*names]), SMALL)
    assert encoded.dictionary is None
    assert encoded.plain.to_texts() == names


def test_equal_locations_are_compressed_once() -> None:
    encoded = compressed([*NAMES, *NAMES])
    assert len(encoded.compressed.strings) == len(NAMES)


def manifest() -> Manifest:
    rows = np.arange(300, dtype=np.uint32).reshape(-1, 1)
    return Manifest(MANIFEST_ID, {ARRAY_ID: ChunkRefs.virtual(rows, NAMES, 0, 1)})


def test_a_manifest_with_compressed_locations_decodes_to_what_was_encoded() -> None:
    data = encode_manifest(manifest(), location_compression=SMALL)
    root = tables_of(data)
    assert root.scalar("compression_algorithm").values[0] == 1
    found = decode_manifest(data).arrays[ARRAY_ID]
    assert found.equals(manifest().arrays[ARRAY_ID])
    assert (
        decode_manifest(encode_manifest(Manifest(MANIFEST_ID, {ARRAY_ID: found})))
        .arrays[ARRAY_ID]
        .equals(found)
    )


def test_compressed_locations_without_a_dictionary_are_refused() -> None:
    root = tables_of(encode_manifest(manifest(), location_compression=SMALL))
    lost = root.replace(location_dictionary=StringColumn.absent(1))
    with pytest.raises(FormatError, match="no dictionary"):
        decode_manifest(file_of(lost, FileType.MANIFEST))


def test_an_unknown_algorithm_is_refused() -> None:
    root = tables_of(encode_manifest(manifest(), location_compression=SMALL))
    odd = root.replace(compression_algorithm=ScalarColumn.of([2], "u1"))
    with pytest.raises(FormatError, match="algorithm 2"):
        decode_manifest(file_of(odd, FileType.MANIFEST))


def test_algorithm_zero_with_compressed_locations_means_raw_bytes() -> None:
    raw = EncodedLocations(column([None]), column(["s3://b/x"]), None)
    assert decode_locations(raw, 0).to_texts() == ["s3://b/x"]
