"""Locations that the reference compressed, in an array that frazil goes on writing."""

import tempfile
from pathlib import Path
from typing import NamedTuple

import icechunk
import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

import frazil
from tests.examples_count import scaled

pytestmark = pytest.mark.compat

COUNT = 2000  # from 1000 on the reference compresses


def locations(name: str, count: int) -> list[str]:
    return [f"s3://bucket/a/rather/long/path/to/{name}-{i}.nc" for i in range(count)]


def test_compressed_and_new_locations_end_up_in_one_manifest(tmp_path: Path) -> None:
    reference = icechunk.Repository.create(icechunk.local_filesystem_storage(str(tmp_path)))
    theirs = reference.writable_session("main")
    zarr.create_array(theirs.store, name="a", shape=(2 * COUNT,), chunks=(1,), dtype="u1")
    numbers = np.arange(COUNT, dtype=np.uint64)
    ones = np.ones(COUNT, dtype=np.uint64)
    theirs.store.set_virtual_refs_arr(
        "a", (COUNT,), locations("old", COUNT), numbers, ones, validate_containers=False
    )
    theirs.commit("compressed")

    ours = frazil.Repository.open(frazil.local_filesystem_storage(str(tmp_path)))
    session = ours.writable_session("main")
    session.store.set_virtual_refs_arr(
        "a",
        (100,),
        locations("new", 100),
        numbers[:100],
        ones[:100],
        validate_containers=False,
        arr_offset=(COUNT - 50,),
    )
    session.commit("fifty replaced, fifty added")

    expected = sorted(locations("old", COUNT - 50) + locations("new", 100))
    assert sorted(ours.readonly_session("main").all_virtual_chunk_locations()) == expected
    again = icechunk.Repository.open(icechunk.local_filesystem_storage(str(tmp_path)))
    assert sorted(again.readonly_session("main").all_virtual_chunk_locations()) == expected


@pytest.mark.parametrize("asked_for", [False, True])
def test_locations_are_compressed_one_by_one_only_if_configured(
    tmp_path: Path, *, asked_for: bool
) -> None:
    compression = frazil.ManifestVirtualChunkLocationCompressionConfig() if asked_for else None
    config = frazil.RepositoryConfig(
        manifest=frazil.ManifestConfig(virtual_chunk_location_compression=compression)
    )
    storage = frazil.local_filesystem_storage(str(tmp_path))
    session = frazil.Repository.create(storage, config).writable_session("main")
    zarr.create_array(session.store, name="a", shape=(COUNT,), chunks=(1,), dtype="u1")
    numbers = np.arange(COUNT, dtype=np.uint64)
    session.store.set_virtual_refs_arr(
        "a", (COUNT,), locations("new", COUNT), numbers, numbers + 1, validate_containers=False
    )
    session.commit("distinct locations")

    theirs = icechunk.Repository.open(icechunk.local_filesystem_storage(str(tmp_path)))
    found = theirs.readonly_session("main").all_virtual_chunk_locations()
    assert sorted(found) == sorted(locations("new", COUNT))
    (file,) = (tmp_path / "manifests").iterdir()
    shown = theirs.inspect_manifest(file.name)
    assert shown["compression"]["uses_location_compression"] is asked_for


class Part(NamedTuple):
    """One array, written by one commit, so that it gets a manifest with a dictionary or without."""

    by_reference: bool
    compressed: bool
    chunks: int
    native: bool  # chunk 0 is stored, the others are virtual


PARTS = st.lists(
    st.builds(Part, st.booleans(), st.booleans(), st.integers(60, 120), st.booleans()),
    min_size=1,
    max_size=5,
)


def part_locations(number: int, part: Part) -> list[str]:
    folder = f"s3://bucket/a/rather/long/folder/of/model-{number % 2}/year=20{number:02d}"
    return [f"{folder}/file-{chunk * (number + 1):05d}.nc" for chunk in range(part.chunks)]


def write_part(path: Path, number: int, part: Part) -> None:
    module = icechunk if part.by_reference else frazil
    least = 50 if part.compressed else 60_000
    compression = module.ManifestVirtualChunkLocationCompressionConfig(min_num_chunks=least)
    config = module.RepositoryConfig(
        inline_chunk_threshold_bytes=0,
        manifest=module.ManifestConfig(virtual_chunk_location_compression=compression),
    )
    storage = module.local_filesystem_storage(str(path))
    session = module.Repository.open(storage, config).writable_session("main")
    array = zarr.create_array(
        session.store, name=f"v{number}", shape=(part.chunks,), chunks=(1,), dtype="u1"
    )
    specs = [
        module.VirtualChunkSpec([chunk], location, chunk, 3)
        for chunk, location in enumerate(part_locations(number, part))
    ]
    session.store.set_virtual_refs(f"/v{number}", specs, validate_containers=False)
    if part.native:
        array[0] = 7
    session.commit(f"part {number}")


@given(parts=PARTS)
@settings(max_examples=scaled(12))
def test_manifests_with_and_without_dictionaries_are_counted_together(parts: list[Part]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        icechunk.Repository.create(icechunk.local_filesystem_storage(folder), spec_version=2)
        for number, part in enumerate(parts):
            write_part(path, number, part)
        theirs = icechunk.Repository.open(icechunk.local_filesystem_storage(folder))
        ours = frazil.Repository.open(frazil.local_filesystem_storage(folder))
        expected = theirs.chunk_storage_stats()
        for stats in (ours.chunk_storage_stats(), ours.stats().total):
            assert stats.native_bytes == expected.native_bytes
            assert stats.virtual_bytes == expected.virtual_bytes
            assert stats.inlined_bytes == expected.inlined_bytes
        by_array = {owner.name: owner.total.virtual_bytes for owner in ours.stats().arrays}
        assert by_array == {
            f"/v{number}": 3 * (part.chunks - part.native) for number, part in enumerate(parts)
        }
        assert ours.verify().ok
        check_locations(parts, folder)
        ours.rewrite_manifests("one manifest of many, or many of one", branch="main")
        check_locations(parts, folder)


def check_locations(parts: list[Part], folder: str) -> None:
    expected = sorted(
        location
        for number, part in enumerate(parts)
        for location in part_locations(number, part)[part.native :]
    )
    theirs = icechunk.Repository.open(icechunk.local_filesystem_storage(folder))
    ours = frazil.Repository.open(frazil.local_filesystem_storage(folder))
    assert sorted(theirs.readonly_session("main").all_virtual_chunk_locations()) == expected
    assert sorted(ours.readonly_session("main").all_virtual_chunk_locations()) == expected
