"""Where a history happens, by which engine, and with which planted bug; sent to processes."""

import importlib
import random
import time
from collections.abc import Buffer
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from frazil import Storage
from frazil.objectstore import LocalStore
from frazil.objectstore.protocol import ALWAYS, Blob, Matches, Precondition
from frazil.ranges import ByteRange

WINDOW_S = 0.02  # that a planted bug leaves open for others


class CrowdedStore(LocalStore):
    """Clients do not go in turns, unlike in other directories: that would hide what is planted."""

    @property
    def directory(self) -> Any:
        return None


class AlwaysSwapping(CrowdedStore):
    """A planted bug: a compare-and-swap that always succeeds."""

    def put(self, key: str, data: Buffer, *, when: Precondition = ALWAYS) -> str:
        if not isinstance(when, Matches):
            return super().put(key, data, when=when)
        time.sleep(WINDOW_S)
        super().put(key, data)
        return self.get(key).version


class WithoutLock(CrowdedStore):
    """A planted bug: compares and swaps, but lets everybody do it at the same time."""

    def _locked(self) -> AbstractContextManager[None]:
        return nullcontext()

    def _require_version(self, key: str, old: Matches) -> None:
        super()._require_version(key, old)
        time.sleep(WINDOW_S)


class RememberingReads(CrowdedStore):
    """A planted bug: the entry point is sometimes that of the last look, not of now."""

    def get(self, key: str, byte_range: ByteRange | None = None) -> Blob:
        if key != "repo":
            return super().get(key, byte_range)
        last: Blob | None = getattr(self, "_last", None)
        if last is None or random.random() < 0.5:
            last = super().get(key)
            self._last = last
        return last

    def reread(self, key: str, known: Blob | None) -> Blob:
        del known
        return self.get(key)


STORES: dict[str, type[LocalStore]] = {
    "real": LocalStore,
    "always swapping": AlwaysSwapping,
    "without lock": WithoutLock,
    "remembering reads": RememberingReads,
}


@dataclass(frozen=True, slots=True)
class Place:
    """A folder for what is recorded; the repository is in it too, or on an S3 server."""

    folder: Path
    engine: str = "frazil"
    store: str = "real"
    s3: dict[str, Any] = field(default_factory=dict)
    config: Any = None  # of the engine
    grouped: bool = False  # with group commit

    def module(self, engine: str | None = None) -> Any:
        return importlib.import_module(engine or self.engine)

    def storage(self, engine: str | None = None) -> Any:
        module, path = self.module(engine), self.folder / "repo"
        if self.s3:
            return module.s3_storage(**self.s3)
        if self.store != "real":
            return Storage(STORES[self.store](path))
        return module.local_filesystem_storage(str(path))

    def open(self, engine: str | None = None) -> Any:
        return self.module(engine).Repository.open(self.storage(engine), config=self.config)
