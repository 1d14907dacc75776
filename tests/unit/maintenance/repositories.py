"""Small repositories to maintain."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import numpy as np
import zarr

import frazil
from frazil.clock import to_datetime
from frazil.engine import repository as engine
from frazil.objectstore.memory import MemoryStore


@dataclass(slots=True)
class Ticking:
    """A clock that gains a second whenever somebody looks."""

    now_us: int = field(
        default_factory=lambda: int(datetime(2024, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000
    )

    def __call__(self) -> int:
        self.now_us += 1_000_000
        return self.now_us

    @property
    def now(self) -> datetime:
        return to_datetime(self.now_us)


@dataclass(slots=True)
class Kept:
    """A repository in memory, whose times are those of its own clock."""

    version: int = 2
    clock: Ticking = field(default_factory=Ticking)
    store: MemoryStore = field(init=False)
    repository: frazil.Repository = field(init=False)

    def __post_init__(self) -> None:
        self.store = MemoryStore(clock=self.clock)
        config = frazil.RepositoryConfig(inline_chunk_threshold_bytes=0)
        made = engine.Repository.create(
            self.store, config, spec_version=self.version, clock=self.clock
        )
        self.repository = frazil.Repository(made, frazil.in_memory_storage())

    def commit(self, message: str, *, branch: str = "main", array: str = "a", at: int = 0) -> str:
        """One chunk of one array is written."""
        session = self.repository.writable_session(branch)
        root = zarr.open_group(session.store, mode="a")
        if array not in root:
            root.create_array(array, shape=(8,), chunks=(1,), dtype="i4", fill_value=-1)
        zarr.open_array(session.store, path=array)[at] = len(message)
        return session.commit(message)

    def messages(self, branch: str = "main") -> list[str]:
        """From the tip on, without the first snapshot."""
        return [each.message for each in self.repository.ancestry(branch=branch)][:-1]

    def keys(self, prefix: str) -> set[str]:
        return {info.key for info in self.store.list(prefix)}

    def read(self, branch: str = "main", array: str = "a") -> list[int]:
        store = self.repository.readonly_session(branch).store
        values: list[int] = np.asarray(zarr.open_array(store, path=array, mode="r")[:]).tolist()
        return values

    def later(self, **difference: float) -> datetime:
        self.clock.now_us += int(timedelta(**difference).total_seconds() * 1_000_000)
        return self.clock.now
