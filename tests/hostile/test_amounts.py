"""A repository from a stranger cannot fill memory or disk, or keep its reader busy for ever."""

import resource
import signal
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import zarr
import zstandard

import frazil
from frazil.engine.files.object_keys import OVERWRITTEN, REPO_INFO, snapshot_key
from frazil.errors import FormatError, SessionStateError, StorageError
from frazil.flatbuf.columns import ScalarColumn, StringColumn, StructColumn
from frazil.flatbuf.flexbuffers import MAX_DEPTH, decode_flexbuffer
from frazil.flatbuf.table import Table
from frazil.format.chunk_refs import Inline, Native, Virtual
from frazil.format.conditions import regex_matches
from frazil.format.config import (
    CachingConfig,
    ManifestConfig,
    ManifestPreloadConfig,
    RepositoryConfig,
    RepoUpdateRetryConfig,
)
from frazil.format.config_codec import decode_config_yaml
from frazil.format.envelope import (
    COMPRESSION_ZSTD,
    FileType,
    Header,
    decode_envelope,
    encode_header,
)
from frazil.format.limits import Limits
from frazil.format.metadata import encode_metadata_of
from frazil.format.ref_file import decode_ref
from frazil.format.repo_info import decode_repo_info
from frazil.format.schemas import SNAPSHOT_INFO
from frazil.format.snapshot import decode_snapshot_head, encode_snapshot
from frazil.format.snapshot_infos import SnapshotInfos
from frazil.format.storage_config import (
    StorageConcurrencySettings,
    StorageRetriesSettings,
    StorageSettings,
)
from frazil.generations.msgpack_values import unpack
from frazil.ids import ChunkId, SnapshotId
from frazil.objectstore.local import LocalStore
from frazil.objectstore.protocol import RemoteSettings
from frazil.objectstore.remote.place import HttpPlace
from frazil.objectstore.remote.remote_store import RemoteSource
from frazil.ranges import Range
from frazil.references.json_sets import decode_json_set
from tests.hostile.listening import SECRET, listener
from tests.hostile.strangers import config_of, first_chunk, stored_config, stranger, with_info
from tests.unit.format.samples import sample_snapshot

MIB = 1 << 20


@contextmanager
def within(seconds: float, mebibytes: int) -> Iterator[None]:
    """Fails if it takes more processor time, or more memory of Python and numpy at once."""

    def late(*_: object) -> None:
        raise AssertionError(f"more than {seconds} s")

    before = signal.signal(signal.SIGVTALRM, late)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < mebibytes * MIB
    finally:
        tracemalloc.stop()
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def bomb(size: int, kind: FileType = FileType.SNAPSHOT) -> bytes:
    """A file whose payload is so many zeros, in a few thousandths of that."""
    header = encode_header(Header("bomb", 2, kind, COMPRESSION_ZSTD))
    frame = zstandard.ZstdCompressor(level=1).compressobj()
    return header + b"".join(
        [*(frame.compress(bytes(MIB)) for _ in range(size // MIB)), frame.flush()]
    )


def test_a_metadata_file_may_not_hold_more_than_a_thousand_times_its_size() -> None:
    data = bomb(400 * MIB)
    assert len(data) < 100_000
    assert len(decode_envelope(bomb(MIB), FileType.SNAPSHOT).data) == MIB
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with within(20, 400), pytest.raises(FormatError, match="larger than the"):
        decode_envelope(data, FileType.SNAPSHOT)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 700 * 1024


def test_the_limit_is_a_setting(tmp_path: Path) -> None:
    root = stranger(tmp_path / "r", Inline(b"x"))
    storage = frazil.local_filesystem_storage(str(root))
    tip = frazil.Repository.open(storage).lookup_branch("main")
    strict = Limits(metadata_bytes=4 * MIB)
    honest = frazil.Repository.open(storage, limits=strict)
    assert len(list(honest.readonly_session("main").engine.nodes())) == 1
    (root / "snapshots" / tip).write_bytes(bomb(8 * MIB))
    opened = frazil.Repository.open(storage, limits=strict)
    with within(5, 64), pytest.raises(FormatError, match=f"larger than the {4 * MIB}"):
        list(opened.readonly_session("main").engine.nodes())


def test_the_setting_is_for_the_first_file_too(tmp_path: Path) -> None:
    root = stranger(tmp_path / "r", Inline(b"x"))
    storage, strict = frazil.local_filesystem_storage(str(root)), Limits(metadata_bytes=4 * MIB)
    assert frazil.Repository.open(storage, limits=strict).list_branches() == {"main"}
    (root / "repo").write_bytes(bomb(8 * MIB, FileType.REPO_INFO))
    with within(5, 64), pytest.raises(FormatError, match=f"larger than the {4 * MIB}"):
        frazil.Repository.open(storage, limits=strict)


def test_a_frame_is_not_believed_what_it_claims_to_hold() -> None:
    claim = (2**40).to_bytes(8, "little")
    frame = b"\x28\xb5\x2f\xfd\xe0" + claim + b"\x01\x00\x00"  # one block of nothing
    header = encode_header(Header("bomb", 2, FileType.SNAPSHOT, COMPRESSION_ZSTD))
    with within(1, 8), pytest.raises(FormatError, match="cannot decompress"):
        decode_envelope(header + frame, FileType.SNAPSHOT)
    honest = b"\x28\xb5\x2f\xfd\xe0" + (0).to_bytes(8, "little") + b"\x01\x00\x00"
    assert bytes(decode_envelope(header + honest, FileType.SNAPSHOT).data) == b""


@pytest.mark.parametrize(
    "read",
    [
        lambda: unpack(b"\x91" * 100_000),
        lambda: unpack(b"\xdd\xff\xff\xff\xff"),
        lambda: decode_ref(b"[" * 1_000_000),
        lambda: decode_ref(b'{"snapshot":' * 100_000),
        lambda: decode_ref(b'{"snapshot": ' + b"9" * 1_000_000 + b"}"),
        lambda: decode_config_yaml(b"[" * 1_000_000),
        lambda: decode_config_yaml(b"- " * 500_000),
        lambda: decode_config_yaml(b"a: &a [x]\nb: [*a, *a]"),
        lambda: decode_config_yaml(b"x" * (2 * MIB)),
        lambda: decode_flexbuffer(_nested_flexbuffer(10 * MAX_DEPTH)),
        lambda: decode_json_set("set", b'{"version":1,"refs":' + b"[" * 200_000),
    ],
    ids=range(11),
)
def test_nesting_and_claims_are_bounded(read: Callable[[], object]) -> None:
    with within(5, 64), pytest.raises(FormatError):
        read()


def test_what_is_nested_a_little_is_read() -> None:
    """The control of the test above."""
    assert unpack(b"\x91" * 3 + b"\x01") == (((1,),),)
    assert str(decode_ref(b'{"snapshot": "1CECHNKREP0F1RSTCMT0"}')) == "1CECHNKREP0F1RSTCMT0"
    assert decode_config_yaml(b"a: [[x]]") == {"a": [["x"]]}
    assert decode_flexbuffer(_nested_flexbuffer(3)) == [[[0]]]
    group = b'{"version":1,"refs":{".zgroup":"{\\"zarr_format\\":2}"}}'
    assert decode_json_set("set", group) is not None


def _nested_flexbuffer(depth: int) -> bytes:
    """A vector in a vector in a vector: each has one element, the one before it."""
    data = b"\x01\x00\x04"  # length 1, the number 0, an integer
    for _ in range(depth - 1):
        data += b"\x01\x03\x28"  # length 1, three bytes back, a vector
    return data + b"\x02\x28\x01"


@pytest.mark.parametrize(
    "gen",
    [
        '{"key":"a/{{i}}","url":"u","dimensions":{"i":{"stop":1000000000000}}}',
        '{"key":"a/{{i}}","url":"u","dimensions":{"i":{"stop":10000000},"j":{"stop":10000}}}',
        '{"key":"a/{{i}}","url":"u","dimensions":{"i":{"stop":1e30}}}',
        '{"key":"a/{{i}}","url":"{{\'%099999999d\' % i}}","dimensions":{"i":[1]}}',
        '{"key":"a/{{i}}","url":"' + "{{u}}" * 2000 + '","dimensions":{"i":[1]}}',
        '{"key":"{{' + "9" * 4000 + "*9" * 4000 + '}}","url":"u","dimensions":{"i":[1]}}',
    ],
    ids=range(6),
)
def test_a_few_bytes_of_references_do_not_become_millions(gen: str) -> None:
    array = '{\\"zarr_format\\":2,\\"shape\\":[9],\\"chunks\\":[1],\\"dtype\\":\\"<u1\\"}'
    refs = '"refs":{"a/.zarray":"' + array + '"}}'
    text = '{"version":1,"templates":{"u":"' + "x" * 60_000 + '"},"gen":[' + gen + "]," + refs
    with within(5, 128), pytest.raises(FormatError) as caught:
        decode_json_set("set", text.encode())
    assert "no metadata" not in str(caught.value)
    few = '{"key":"a/{{i}}","url":"{{u}}","dimensions":{"i":{"stop":3}}}'
    assert decode_json_set("set", text.replace(gen, few).encode()) is not None


def test_a_damaged_index_of_parents_ends(tmp_path: Path) -> None:
    root = stranger(tmp_path / "r", Inline(b"x"))
    snapshots = decode_repo_info(LocalStore(root).get(REPO_INFO).data).snapshots
    assert len(snapshots) == 2
    honest = frazil.Repository.open(frazil.local_filesystem_storage(str(root)))
    assert len(list(honest.ancestry(branch="main"))) == 2
    rows = Table.build(
        SNAPSHOT_INFO,
        2,
        id=StructColumn.of(snapshots.ids),
        parent_offset=ScalarColumn.of(np.array([1, 0], np.int32), "i4"),
        flushed_at=ScalarColumn.of(snapshots.flushed_at_us, "u8"),
        message=StringColumn.from_list(["a", "b"]),
        metadata=encode_metadata_of([{}, {}]),
    )
    with_info(root, snapshots=SnapshotInfos(rows))
    opened = frazil.Repository.open(frazil.local_filesystem_storage(str(root)))
    with within(5, 64), pytest.raises(FormatError, match="cycle"):
        list(opened.ancestry(branch="main"))


def test_backups_that_cite_each_other_end(tmp_path: Path) -> None:
    root = stranger(tmp_path / "r", Inline(b"x"))
    with_info(root, before_updates="one")
    store = LocalStore(root)
    data = store.get(REPO_INFO).data
    store.put(OVERWRITTEN + "one", data)  # cites itself
    opened = frazil.Repository.open(frazil.local_filesystem_storage(str(root)))
    with within(5, 64):
        assert len(list(opened.ops_log())) < 10


def test_parents_in_version_1_that_form_a_cycle_end(tmp_path: Path) -> None:
    storage = frazil.local_filesystem_storage(str(tmp_path / "r"))
    made = frazil.Repository.create(storage, spec_version=1)
    session = made.writable_session("main")
    session.commit("a", allow_empty=True)
    tip = made.lookup_branch("main")
    assert len(list(frazil.Repository.open(storage).ancestry(branch="main"))) == 2
    store = LocalStore(tmp_path / "r")
    files = made.engine.files
    snapshot = files.fetch_snapshot(SnapshotId.parse(tip))
    looped = replace(snapshot, parent_id=snapshot.id)
    store.put(snapshot_key(snapshot.id), encode_snapshot(looped, spec_version=1))
    opened = frazil.Repository.open(storage)
    with within(5, 64), pytest.raises(FormatError, match="cycle"):
        list(opened.ancestry(branch="main"))


@pytest.mark.parametrize("offset", [0, 2**62, 2**63 - 1, 2**64 - 1])
@pytest.mark.parametrize("length", [1, 2**31, 2**40, 2**63, 2**64 - 1])
def test_a_chunk_of_any_claimed_size_is_refused_or_short(
    tmp_path: Path, offset: int, length: int
) -> None:
    root = stranger(tmp_path / "r", Native(ChunkId(bytes(12)), offset, length))
    (root / "chunks" / str(ChunkId(bytes(12)))).write_bytes(b"short")
    if (offset, length) == (0, 1):
        assert first_chunk(root) == b"s"
        return
    with within(5, 64), pytest.raises(StorageError):
        first_chunk(root)


def test_a_file_with_holes_does_not_fill_the_memory(tmp_path: Path) -> None:
    """Five gigabytes that take no room on the disk, and would take it in memory."""
    holes = tmp_path / "data" / "holes"
    holes.parent.mkdir()
    with holes.open("wb") as file:
        file.truncate(5 << 30)
    url = f"file://{holes.parent}/"
    store = frazil.ObjectStoreConfig.LocalFileSystem(str(holes.parent))
    config = config_of({url: frazil.VirtualChunkContainer(url, store)})
    root = stranger(tmp_path / "r", Virtual(f"{url}holes", 0, 5 << 30), config=config)
    access = {url: frazil.credentials.LocalFileSystemAccess}
    with within(5, 64), pytest.raises(StorageError, match="Limits"):
        first_chunk(root, access)
    assert len(first_chunk(stranger(tmp_path / "s", Virtual(f"{url}holes", 0, 9), config=config),
                           access)) == 9  # fmt: skip


def test_a_metadata_file_of_holes_is_not_read(tmp_path: Path) -> None:
    root = stranger(tmp_path / "r", Inline(b"x"))
    storage = frazil.local_filesystem_storage(str(root))
    assert frazil.Repository.open(storage).list_branches() == {"main"}
    with (root / "repo").open("r+b") as file:
        file.truncate(1 << 40)
    with within(5, 64), pytest.raises(StorageError, match="holes"):
        frazil.Repository.open(storage)


def test_a_range_that_is_claimed_to_be_endless_takes_few_requests() -> None:
    with listener() as server:
        source = RemoteSource(HttpPlace(base_url=server.url), RemoteSettings())
        with within(5, 64):
            (data,) = source.read("file", [Range(0, 2**61)])
        assert bytes(data) == SECRET
        assert len(server.asked) <= 3


def test_a_stored_configuration_gets_no_more_than_the_limits(tmp_path: Path) -> None:
    much = 2**32 - 1
    asked = RepositoryConfig(
        caching=CachingConfig(num_chunk_refs=2**60, num_bytes_chunks=2**60),
        max_concurrent_requests=2**16 - 1,
        manifest=ManifestConfig(
            ManifestPreloadConfig(max_total_refs=much, max_arrays_to_scan=much)
        ),
        repo_update_retries=RepoUpdateRetryConfig(StorageRetriesSettings(2**16 - 1, much, much)),
        storage=StorageSettings(
            StorageConcurrencySettings(2**16 - 1, 1),
            StorageRetriesSettings(2**16 - 1, much, much),
        ),
    )
    root = stored_config(stranger(tmp_path / "r", Inline(b"x")), asked)
    storage = frazil.local_filesystem_storage(str(root))
    settings = frazil.Repository.open(storage).engine.files.settings
    limits = Limits()
    assert settings.cached_chunk_bytes == limits.cached_chunk_bytes
    assert settings.cached_refs == limits.cached_refs
    assert settings.preload.max_total_refs == limits.preloaded_refs
    assert settings.preload.max_arrays == limits.preloaded_arrays
    assert settings.update_tries == limits.tries
    assert settings.update_backoff_cap_s == limits.wait_ms / 1000
    assert settings.virtual.settings.concurrency == StorageConcurrencySettings(256, 4096)
    # What the reader asks for themselves is theirs.
    own = RepositoryConfig(caching=CachingConfig(num_bytes_chunks=2**40))
    opened = frazil.Repository.open(storage, own)
    assert opened.engine.files.settings.cached_chunk_bytes == 2**40


EXPONENTIAL = (
    (r"(a+)+$", "a" * 40 + "!"),
    (r"(a|aa)+$", "a" * 200 + "!"),
    (r"(a|a|a|a|b)*c", "a" * 100),
    ("a?" * 40 + "a" * 40, "a" * 39),
    (r".*.*.*.*.*.*.*x", "a" * 2000),
    (r"(.*)*(.*)*$b", "a" * 60),
    (r"(?:(?:(?:a{0,30}){0,30}){0,30})b", "a" * 60),
)


@pytest.mark.parametrize(("regex", "text"), EXPONENTIAL, ids=range(len(EXPONENTIAL)))
def test_a_stored_rule_cannot_take_for_ever_to_match(regex: str, text: str) -> None:
    with within(2, 64):
        assert not regex_matches(regex, text)


def test_opening_a_session_survives_such_a_rule(tmp_path: Path) -> None:
    rule = frazil.ManifestPreloadCondition.path_matches(r"(\w+)+\W$")
    preload = ManifestPreloadConfig(max_total_refs=10, preload_if=rule)
    storage = frazil.local_filesystem_storage(str(tmp_path / "r"))
    made = frazil.Repository.create(storage)
    session = made.writable_session("main")
    zarr.create_array(session.store, name="a" * 60, shape=(1,), dtype="u1")[:] = 1
    session.commit("long name")
    stored_config(tmp_path / "r", RepositoryConfig(manifest=ManifestConfig(preload)))
    with within(5, 64):
        opened = frazil.Repository.open(storage).readonly_session("main")
        assert len(list(opened.engine.nodes())) == 2


def test_a_huge_shape_costs_nothing_until_it_is_read(tmp_path: Path) -> None:
    storage = frazil.local_filesystem_storage(str(tmp_path / "r"))
    made = frazil.Repository.create(storage)
    session = made.writable_session("main")
    zarr.create_array(
        session.store, name="huge", shape=(2**50, 2**20), chunks=(2**20, 1), dtype="f8"
    )
    session.commit("huge")
    with within(5, 64):
        opened = frazil.Repository.open(storage)
        array = zarr.open_array(opened.readonly_session("main").store, path="huge", mode="r")
        assert array.shape == (2**50, 2**20)
        assert not opened.verify().problems
        assert opened.stats() is not None
        assert "huge" in repr(array)


def test_reading_writes_nothing(tmp_path: Path) -> None:
    root = stranger(tmp_path / "r", Inline(b"abc"))
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    assert first_chunk(root) == b"abc"
    opened = frazil.Repository.open(frazil.local_filesystem_storage(str(root)))
    assert list(opened.ancestry(branch="main"))
    assert list(opened.ops_log())
    assert opened.list_tags() == set()
    opened.verify()
    with pytest.raises(SessionStateError, match="not allowed on read-only"):
        opened.readonly_session("main").commit("no")
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before


def test_the_head_of_a_snapshot_is_bounded_too() -> None:
    good = encode_snapshot(sample_snapshot())
    assert decode_snapshot_head(good).id == sample_snapshot().id
    with pytest.raises(FormatError, match="larger than the 10"):
        decode_snapshot_head(good, max_size=10)
