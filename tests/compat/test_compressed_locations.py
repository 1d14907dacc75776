"""Locations that the reference compressed, in an array that frazil goes on writing."""

from pathlib import Path

import icechunk
import numpy as np
import pytest
import zarr

import frazil

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
