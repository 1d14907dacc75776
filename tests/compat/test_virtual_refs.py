"""Virtual references: what one engine sets, both list alike, compressed locations included."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.core.sync import sync

from tests.compat.driver import OURS, REFERENCE, Engine, assert_same

GRID = (1500, 2)
INLINE = 3  # ChunkType.inline, as the columns give it
CHECKSUMS: dict[str, str | datetime | None] = {
    "etag": "an etag",
    "time": datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC),
    "none": None,
}


def locations(count: int) -> list[str]:
    """Few distinct ones, many distinct ones, long ones, and some that are not ASCII."""
    few = [f"s3://bucket/a/fairly/long/prefix/file-{i // 100:04}.nc" for i in range(count)]
    for i in range(0, count, 7):
        few[i] = f"s3://bucket/distinct/{i:08}/{'deep/' * (i % 20)}data.nc"
    few[5] = "s3://bucket/" + "long/" * 150 + "x.nc"
    few[6] = "s3://bucket/d%C3%A9j%C3%A0/vu.nc"
    return few


def set_refs(engine: Engine, root: Path, checksum: str | datetime | None, count: int) -> None:
    session = engine.create(root).writable_session("main")
    grid = (count // 2, 2)
    zarr.create_array(session.store, name="v", shape=grid, chunks=(1, 1), dtype="i4")
    session.store.set_virtual_refs_arr(
        "v",
        grid,
        locations(count),
        np.arange(count, dtype=np.uint64) * 10,
        np.arange(1, count + 1, dtype=np.uint64),
        validate_containers=False,
        checksum=checksum,
    )
    session.commit("virtual")


def listed(engine: Engine, root: Path, path: str = "/v") -> list[tuple[object, ...]]:
    """Every chunk reference of an array, sorted by its index."""
    session = engine.open(root).readonly_session("main")

    async def collect() -> list[Any]:
        return [batch async for batch in session.store.array_chunk_iterator(path, batch_size=700)]

    rows: list[tuple[object, ...]] = []
    for coords, kinds, paths, offsets, lengths, inlined in sync(collect()):
        assert len(coords) <= 700
        for i, index in enumerate(coords.tolist()):
            rows.append(
                (tuple(index), int(kinds[i]), paths[i], int(offsets[i]), int(lengths[i]))
                + ((inlined[i],) if i in inlined else ())
            )
    return sorted(rows, key=lambda row: str(row[0]))


@pytest.mark.parametrize("writer", [OURS, REFERENCE], ids=lambda engine: engine.name)
@pytest.mark.parametrize("checksum", CHECKSUMS)
@pytest.mark.parametrize("count", [100, 3000])  # locations are compressed from 1000 on
def test_references_are_listed_alike(
    writer: Engine, checksum: str, count: int, tmp_path: Path
) -> None:
    set_refs(writer, tmp_path, CHECKSUMS[checksum], count)
    ours = listed(OURS, tmp_path)
    assert_same(ours, listed(REFERENCE, tmp_path), "references")
    assert len(ours) == count
    assert sorted(str(row[2]) for row in ours) == sorted(locations(count))


@pytest.mark.parametrize("first", [OURS, REFERENCE], ids=lambda engine: engine.name)
def test_a_manifest_of_one_engine_is_extended_by_the_other(first: Engine, tmp_path: Path) -> None:
    second = REFERENCE if first is OURS else OURS
    set_refs(first, tmp_path, "an etag", 3000)
    session = second.open(tmp_path).writable_session("main")
    session.store.set_virtual_ref(
        "v/c/3/1", "s3://other/place.nc", offset=1, length=2, validate_container=False
    )
    zarr.open_array(session.store, path="v")[7, 0] = 99
    sync(session.store.delete("v/c/8/0"))
    session.commit("three chunks changed")
    ours = listed(OURS, tmp_path)
    assert_same(ours, listed(REFERENCE, tmp_path), "references")
    by_index = {row[0]: row for row in ours}
    assert by_index[3, 1][2:5] == ("s3://other/place.nc", 1, 2)
    assert by_index[7, 0][1] == INLINE
    assert (8, 0) not in by_index
    assert len(by_index) == 3000 - 1


def test_virtual_locations_are_listed_alike(tmp_path: Path) -> None:
    set_refs(REFERENCE, tmp_path, None, 3000)
    found = [
        sorted(engine.open(tmp_path).readonly_session("main").all_virtual_chunk_locations())
        for engine in (OURS, REFERENCE)
    ]
    assert_same(found[0], found[1], "locations")
