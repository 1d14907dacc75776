"""Virtual chunks in bulk: which requests are made, and what comes of them."""

import pickle
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from frazil.engine.files.virtual_access import (
    Grant,
    VirtualAccess,
    VirtualChunkAccess,
    VirtualReads,
)
from frazil.engine.files.virtual_chunks import VirtualChunks
from frazil.errors import (
    InvalidInputError,
    ObjectChangedError,
    ObjectNotFoundError,
    StorageError,
)
from frazil.flatbuf.columns import StringColumn
from frazil.format.chunk_refs import ChunkRefs, ETag, Virtual
from frazil.format.storage_config import ObjectStoreConfig, S3Options, VirtualChunkContainer
from frazil.objectstore.credentials import CredentialsForS3, S3AnonymousCredentials
from frazil.objectstore.pool import Pool
from frazil.objectstore.protocol import DataList, Expectation, NotModifiedAfter, SameETag
from frazil.ranges import Range

CONTENT = bytes(range(256)) * 40
S3 = ObjectStoreConfig.S3(S3Options("us-east-1"))
ANONYMOUS = CredentialsForS3(S3AnonymousCredentials())


@dataclass(slots=True)
class Recorded:
    """A source in which every key has the same content, and that counts what it is asked."""

    asked: list[tuple[str, Range, Expectation | None]] = field(default_factory=list)
    busy: list[int] = field(default_factory=list)
    at_work: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def read(
        self, key: str, ranges: Sequence[Range], *, expected: Expectation | None = None
    ) -> DataList:
        with self.lock:
            self.at_work += 1
            self.busy.append(self.at_work)
            self.asked += [(key, one, expected) for one in ranges]
        threading.Event().wait(0.002)
        with self.lock:
            self.at_work -= 1
        if key == "none":
            raise ObjectNotFoundError(key)
        if expected == SameETag("old"):
            raise ObjectChangedError(key, "ETag old", "ETag new")
        return [CONTENT[one.start : one.stop] for one in ranges]

    def size_bytes(self, key: str) -> int:
        return len(CONTENT) + len(key) * 0

    def spans(self) -> list[tuple[str, int, int]]:
        return sorted((key, one.start, one.stop) for key, one, _ in self.asked)


def access(reads: VirtualReads | None = None) -> VirtualAccess:
    containers = {
        prefix: VirtualChunkContainer(prefix, S3, name)
        for prefix, name in (("s3://b/", "bucket"), ("s3://closed/", None))
    }
    given = VirtualChunkAccess({"s3://b": ANONYMOUS}, reads=reads or VirtualReads())
    return VirtualAccess.of(containers, given)


@pytest.fixture
def source() -> Recorded:
    return Recorded()


def chunks(source: Recorded, reads: VirtualReads | None = None, *, width: int = 4) -> VirtualChunks:
    return VirtualChunks(access(reads), Pool(width), lambda *_: source)


def refs(
    places: Sequence[tuple[str, int, int]], etag: Sequence[str | None] | None = None
) -> ChunkRefs:
    index = np.arange(len(places), dtype=np.uint32).reshape(-1, 1)
    etags = None if etag is None else StringColumn.from_list(etag)
    locations, offsets, lengths = zip(*places, strict=True)
    return ChunkRefs.virtual(index, list(locations), list(offsets), list(lengths), etag=etags)


def everything(found: ChunkRefs) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.arange(len(found), dtype=np.int64)


def test_adjacent_chunks_of_one_object_are_one_request(source: Recorded) -> None:
    wanted = refs([("s3://b/a", 10 * row, 10) for row in (3, 0, 1, 2)] + [("s3://b/c", 5, 2)])
    found = chunks(source).fetch_many([(wanted, everything(wanted))])
    assert [bytes(one) for one in found] == [
        CONTENT[30:40], CONTENT[:10], CONTENT[10:20], CONTENT[20:30], CONTENT[5:7],
    ]  # fmt: skip
    assert source.spans() == [("a", 0, 40), ("c", 5, 7)]


@pytest.mark.parametrize(
    ("reads", "spans"),
    [
        (VirtualReads(max_gap_bytes=10), [("a", 0, 40), ("a", 60, 70)]),
        (VirtualReads(max_gap_bytes=9), [("a", 0, 10), ("a", 20, 40), ("a", 60, 70)]),
        (VirtualReads(max_gap_bytes=100, max_request_bytes=40), [("a", 0, 40), ("a", 60, 70)]),
        (
            VirtualReads(max_gap_bytes=100, max_request_bytes=5),
            [("a", 0, 10), ("a", 20, 30), ("a", 30, 40), ("a", 60, 70)],
        ),
        (VirtualReads(), [("a", 0, 70)]),
    ],
)
def test_gaps_and_sizes_have_limits(
    source: Recorded, reads: VirtualReads, spans: list[tuple[str, int, int]]
) -> None:
    wanted = refs([("s3://b/a", start, 10) for start in (0, 20, 30, 60)])
    found = chunks(source, reads).fetch_many([(wanted, everything(wanted))])
    assert [bytes(one) for one in found] == [CONTENT[s : s + 10] for s in (0, 20, 30, 60)]
    assert source.spans() == spans


def test_chunks_of_one_object_in_several_manifests_share_a_request(source: Recorded) -> None:
    parts = [
        refs([("s3://b/a", 20 * part, 10), ("s3://b/a", 20 * part + 10, 10)]) for part in (2, 0, 1)
    ]
    rows = [everything(parts[0]), np.array([1], np.int64), np.array([], np.int64)]
    found = chunks(source).fetch_many(list(zip(parts, rows, strict=True)))
    assert [bytes(one) for one in found] == [CONTENT[40:50], CONTENT[50:60], CONTENT[10:20]]
    assert source.spans() == [("a", 10, 60)]


def test_relative_and_complete_locations_of_one_object_are_both_read(source: Recorded) -> None:
    wanted = refs([("s3://b/a", 0, 10), ("vcc://bucket/a", 10, 10)])
    found = chunks(source).fetch_many([(wanted, everything(wanted))])
    assert [bytes(one) for one in found] == [CONTENT[:10], CONTENT[10:20]]


def test_chunks_that_expect_different_things_are_not_read_together(source: Recorded) -> None:
    wanted = refs(
        [("s3://b/a", 0, 10), ("s3://b/a", 10, 10), ("s3://b/a", 20, 10)], ["x", "y", None]
    )
    chunks(source).fetch_many([(wanted, everything(wanted))])
    expected = {one.start: expectation for _, one, expectation in source.asked}
    assert expected == {0: SameETag("x"), 10: SameETag("y"), 20: None}
    chunks(source).fetch(Virtual("s3://b/a", 0, 10, ETag("z")), Range(2, 4))
    assert source.asked[-1] == ("a", Range(2, 4), SameETag("z"))


def test_times_are_expectations_too(source: Recorded) -> None:
    index = np.zeros((1, 1), np.uint32)
    wanted = ChunkRefs.virtual(index, ["s3://b/a"], [0], [10], last_modified=7)
    chunks(source).fetch_many([(wanted, everything(wanted))])
    assert source.asked[0][2] == NotModifiedAfter(7)


def test_requests_at_a_time_are_bounded(source: Recorded) -> None:
    wanted = refs([(f"s3://b/{row}", 0, 10) for row in range(60)])
    chunks(source, width=3).fetch_many([(wanted, everything(wanted))])
    assert len(source.asked) == 60
    assert 1 < max(source.busy) <= 3


def test_a_changed_object_is_named_with_what_was_expected_and_found(source: Recorded) -> None:
    with pytest.raises(ObjectChangedError) as caught:
        chunks(source).fetch(Virtual("vcc://bucket/a%20b", 0, 10, ETag("old")), Range(0, 10))
    assert "(s3://b/a%20b): expected ETag old, found ETag new" in str(caught.value)
    assert caught.value.kind == "virtual-chunk-modified"
    assert caught.value.key == "s3://b/a%20b"


@pytest.mark.parametrize(
    ("chunk", "message"),
    [
        (Virtual("s3://b/none", 0, 10), "s3://b/none: object not found"),
        (Virtual("s3://b/a", len(CONTENT) - 5, 10), "too short.*it ends at 10240"),
        (Virtual("s3://b/a", 10**6, 10), "too short.*ends at 1000000 or before"),
        (Virtual("s3://b/a", 2**64 - 1, 10), "too short"),
    ],
)
def test_what_cannot_be_fetched_is_named(source: Recorded, chunk: Virtual, message: str) -> None:
    with pytest.raises(StorageError, match=message) as caught:
        chunks(source).fetch(chunk, Range(0, chunk.length))
    assert caught.value.kind == "virtual-chunk-fetch"


@pytest.mark.parametrize(
    ("location", "kind"),
    [
        ("s3://closed/x", "unauthorized-virtual-chunk-container"),
        ("s3://nowhere/x", "no-container-for-virtual-chunk"),
        ("vcc://nobody/x", "no-container-for-virtual-chunk"),
    ],
)
def test_what_is_not_allowed_is_never_asked_for(source: Recorded, location: str, kind: str) -> None:
    wanted = refs([("s3://b/a", 0, 10), (location, 0, 10)])
    with pytest.raises(InvalidInputError) as caught:
        chunks(source).fetch_many([(wanted, everything(wanted))])
    assert caught.value.kind == kind
    assert source.asked == []


def test_each_place_is_opened_once(source: Recorded) -> None:
    opened: list[tuple[str, str]] = []

    def opener(grant: Grant, authority: str, _: VirtualAccess) -> Recorded:
        opened.append((grant.container.url_prefix, authority))
        return source

    virtual = VirtualChunks(access(), Pool(8), opener)
    wanted = refs([(f"s3://b/{row}", 0, 10) for row in range(40)])
    threads = [
        threading.Thread(target=virtual.fetch_many, args=([(wanted, everything(wanted))],))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert opened == [("s3://b/", "b")]
    assert len(source.asked) == 160


def test_leave_travels_and_connections_do_not() -> None:
    copy = pickle.loads(pickle.dumps(VirtualChunks(access(), Pool(2))))
    assert copy.access == access()
    assert copy.resolve("vcc://bucket/x").grant.credentials == ANONYMOUS
