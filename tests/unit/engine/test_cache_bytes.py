"""Caches are bounded by what is configured, and by what it takes in memory."""

import tracemalloc
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import zarr

import frazil
from frazil.engine.files.caches import WeighedCache
from frazil.engine.files.files import Files
from frazil.engine.files.object_keys import snapshot_key
from frazil.engine.files.settings import Settings
from frazil.format.chunk_refs import ChunkRefs
from frazil.format.config import RepositoryConfig
from frazil.format.snapshot import decode_snapshot
from frazil.ids import SnapshotId


def test_the_least_recently_used_go_when_the_bytes_are_too_many() -> None:
    cache: WeighedCache[str, bytes] = WeighedCache(100, lambda _: 1, 10, len)
    cache.remember("a", b"1234")
    cache.remember("b", b"1234")
    cache.find("a")
    cache.remember("c", b"1234")

    assert [cache.find(key) is not None for key in "abc"] == [True, False, True]


def test_what_alone_is_too_large_is_not_kept_and_takes_no_room() -> None:
    cache: WeighedCache[str, bytes] = WeighedCache(100, lambda _: 1, 10, len)
    cache.remember("a", b"1234567890")
    cache.remember("b", b"12345678901")
    cache.remember("a", b"12345")
    cache.remember("c", b"12345")

    assert [cache.find(key) is not None for key in "abc"] == [True, False, True]


def test_references_know_about_how_much_memory_they_take() -> None:
    index = np.arange(10_000, dtype=np.uint32).reshape(-1, 1)
    shared = ChunkRefs.virtual(index, ["s3://bucket/one"] * 10_000, 0, 1)
    own = ChunkRefs.virtual(index, [f"s3://bucket/{'x' * 80}/{i}" for i in range(10_000)], 0, 1)

    assert 100_000 < shared.num_bytes < 300_000
    assert own.num_bytes > shared.num_bytes + 10_000 * 80


def test_files_with_hardly_anything_in_them_are_bounded_too() -> None:
    """Of whatever kind: what Python takes for one is counted, about as much as it is."""
    storage = frazil.in_memory_storage()
    session = frazil.Repository.create(storage).writable_session("main")
    array = zarr.create_array(session.store, name="a", shape=(9,), chunks=(3,), dtype="i8")
    array[:] = 1
    tip = SnapshotId.parse(session.commit("three chunks"))
    settings = Settings.of(RepositoryConfig())
    files = Files(storage.store, replace(settings, cached_changes=1000))
    (file,) = files.fetch_snapshot(tip).manifest_files
    loads: dict[str, Callable[[], object]] = {
        "heads": lambda: files._load_head(tip),
        "names": lambda: files._load_names(tip),
        "snapshots": lambda: decode_snapshot(storage.store.get(snapshot_key(tip)).data),
        "logs": lambda: files._load_log(tip),
        "manifests": lambda: files._decode_manifest(file.id),
    }
    for name, load in loads.items():
        size = getattr(files.caches, name).size
        load()  # what is loaded or remembered on first use
        tracemalloc.start()
        kept = [load() for _ in range(50)]
        taken = tracemalloc.get_traced_memory()[0] / 50
        tracemalloc.stop()
        assert size(kept[0]) > 0.6 * taken, name
