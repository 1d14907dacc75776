"""Damaged files of the generations before version 1 are refused with FormatError, or read."""

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import FormatError
from frazil.format.envelope import FileType
from frazil.format.nodes import Nodes
from frazil.generations.alpha_manifest import decode_old_manifest
from frazil.generations.alpha_refs import decode_old_ref
from frazil.generations.alpha_snapshot import decode_old_log, decode_old_snapshot
from frazil.generations.msgpack_values import payload
from frazil.ids import ManifestId, SnapshotId
from tests.conformance.generations import ARCHIVES, repository_files


def read_snapshot(data: bytes) -> None:
    list(decode_old_snapshot(data, SnapshotId(bytes(12))).snapshot.nodes)


def read_manifest(data: bytes) -> None:
    found = decode_old_manifest(data, ManifestId(bytes(12))).resolved({})
    for refs in found.arrays.values():
        for row in range(len(refs)):
            refs.payload(row)


def read_log(data: bytes) -> None:
    decode_old_log(data, SnapshotId(bytes(12))).resolved(Nodes.empty())


def read_ref(data: bytes) -> None:
    decode_old_ref(data)


READERS: dict[str, tuple[FileType | None, Callable[[bytes], None]]] = {
    "s": (FileType.SNAPSHOT, read_snapshot),
    "snapshots": (FileType.SNAPSHOT, read_snapshot),
    "m": (FileType.MANIFEST, read_manifest),
    "manifests": (FileType.MANIFEST, read_manifest),
    "transactions": (FileType.TRANSACTION_LOG, read_log),
    "r": (None, read_ref),
    "refs": (None, read_ref),
}


def samples() -> list[tuple[str, bytes, Callable[[bytes], None]]]:
    """One file of each kind and archive: as it is, and without envelope and compression."""
    found: dict[
        tuple[str, Callable[[bytes], None], str], tuple[bytes, Callable[[bytes], None]]
    ] = {}
    for archive in ARCHIVES:
        for path, data in sorted(repository_files(archive).items(), key=lambda item: -len(item[1])):
            folder = path.partition("/")[0]
            if folder in READERS and not path.endswith(".deleted"):
                kind, read = READERS[folder]
                found.setdefault((archive, read, "stored"), (data, read))
                if kind is not None:
                    plain = payload(data, kind, max_size=2**31)
                    found.setdefault((archive, read, "plain"), (plain, read))
    return [(f"{key[0]} {key[2]}", *value) for key, value in found.items()]


SAMPLES = samples()


def attempt(read: Callable[[bytes], None], data: bytes) -> None:
    with suppress(FormatError):
        read(data)


def test_there_are_samples_of_every_kind() -> None:
    assert len(SAMPLES) > 100
    for _, data, read in SAMPLES:
        if data[4:8] != b"Ichk":  # a FlatBuffer without its envelope is none of these files
            read(data)


@given(st.sampled_from(SAMPLES), st.data())
def test_changed_bytes_are_refused_or_read(
    sample: tuple[str, bytes, Callable[[bytes], None]], data: st.DataObject
) -> None:
    _, whole, read = sample
    changed = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    attempt(read, bytes(changed))


@given(st.sampled_from(SAMPLES), st.data())
def test_cut_off_files_are_refused(
    sample: tuple[str, bytes, Callable[[bytes], None]], data: st.DataObject
) -> None:
    _, whole, read = sample
    attempt(read, whole[: data.draw(st.integers(0, len(whole) - 1))])


@given(st.sampled_from(SAMPLES), st.data())
def test_moved_pieces_are_refused_or_read(
    sample: tuple[str, bytes, Callable[[bytes], None]], data: st.DataObject
) -> None:
    _, whole, read = sample
    cuts = st.integers(0, len(whole))
    start, stop, place = (data.draw(cuts) for _ in range(3))
    piece = whole[min(start, stop) : max(start, stop)][:200]
    attempt(read, whole[:place] + piece + whole[place:])


@pytest.mark.parametrize("read", [read_snapshot, read_manifest, read_log, read_ref])
@given(st.binary(max_size=200))
def test_any_bytes_are_refused_or_read(read: Callable[[bytes], None], data: bytes) -> None:
    attempt(read, data)


@pytest.mark.parametrize("read", [read_snapshot, read_manifest, read_log])
@pytest.mark.parametrize(
    "bomb",
    [
        b"\x91" * 2000,  # arrays in arrays
        b"\x81" * 2000,  # maps whose keys are maps
        b"\xdd\xff\xff\xff\xff",  # an array of four billion
        b"\xdf\xff\xff\xff\xff\xc0",
        b"\xc6\xff\xff\xff\xff",  # bytes of four gigabytes
        b"\xd9\x02\xff\xff",  # text that is none
        b"\xc7\x01\x7f\x00",  # of a type that nobody defined
    ],
)
def test_claims_are_not_believed(read: Callable[[bytes], None], bomb: bytes) -> None:
    for start in (b"", b"\x91", b"\x93\x00\x80", b"\x92\xc0", b"\x97\x90\x90\x90\x90\x90\x90"):
        with pytest.raises(FormatError):
            read(start + bomb)
