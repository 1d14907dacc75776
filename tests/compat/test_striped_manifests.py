"""Manifests of thousands of references are in stripes; both engines read and extend them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from frazil.format.manifest import decode_manifest
from tests.compat.driver import OURS, REFERENCE, Engine

SHAPE = (83, 61)  # more than 4,096 chunks, and no multiple of a band


def values_of(engine: Engine, folder: Path) -> Any:
    session = engine.open(folder).readonly_session("main")
    return zarr.open_array(session.store, path="x", mode="r")[:]


def write(engine: Engine, folder: Path, selection: Any, values: Any) -> None:
    session = engine.open(folder).writable_session("main")
    zarr.open_array(session.store, path="x")[selection] = values
    session.commit("values")


@pytest.mark.parametrize("chunk", [3, 200], ids=["inline", "packed"])
def test_both_read_and_extend_them(chunk: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(chunk)
    values = rng.random((SHAPE[0], SHAPE[1] * chunk))
    session = OURS.create(tmp_path).writable_session("main")
    array = zarr.create_array(
        session.store, name="x", shape=values.shape, chunks=(1, chunk), dtype="f8", compressors=None
    )
    array[:] = values
    session.commit("values")
    (manifest,) = (tmp_path / "manifests").iterdir()
    assert decode_manifest(manifest.read_bytes()).num_refs == SHAPE[0] * SHAPE[1]
    assert np.array_equal(values_of(REFERENCE, tmp_path), values)
    for number in range(4):  # each reads the manifest of the other, and writes it again
        row, column = (int(rng.integers(0, length)) for length in values.shape)
        selection = (slice(row, row + 3), slice(column, column + 5))
        values[selection] = number
        write((REFERENCE, OURS)[number % 2], tmp_path, selection, number)
        assert np.array_equal(values_of(OURS, tmp_path), values)
        assert np.array_equal(values_of(REFERENCE, tmp_path), values)
