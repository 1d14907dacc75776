"""An engine on a memory store, with a clock that ticks when asked."""

import json
from collections.abc import Callable

import pytest

from frazil.engine.repository import Repository
from frazil.objectstore.memory import MemoryStore

GROUP = b'{"zarr_format": 3, "node_type": "group"}'


def array_metadata(*shape: int, chunk: int = 2, **attributes: object) -> bytes:
    """zarr.json of an array cut into chunks of equal sides."""
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(shape),
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [chunk] * len(shape)}},
        "attributes": attributes,
    }
    return json.dumps(document).encode()


class TickingClock:
    """Real time to begin with (stores note it too), then one microsecond a look."""

    def __init__(self, start_us: int) -> None:
        self.now_us = start_us

    def __call__(self) -> int:
        self.now_us += 1
        return self.now_us


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def repository(store: MemoryStore) -> Repository:
    return Repository.create(store)


@pytest.fixture
def make_array() -> Callable[..., bytes]:
    return array_metadata
