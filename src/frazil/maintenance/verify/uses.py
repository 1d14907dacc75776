"""Uses of manifests by arrays, as recorded in snapshots; each fact once."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from frazil.maintenance.verify.extents import Extents

_MOST_FACTS = 4_000_000  # remembered; after that the same facts may be collected again


@dataclass(frozen=True, slots=True)
class ManifestUse:
    """Chunks of one array that are looked for in one manifest."""

    manifest: bytes
    node_id: bytes
    path: str
    num_chunks: tuple[int, ...]
    raw_extents: bytes  # (k, ndim, 2) int64
    snapshot: str  # key of one file that says so
    user_data: bytes = b""  # zarr metadata, where chunks are to be decoded

    @property
    def ndim(self) -> int:
        return len(self.num_chunks)

    @property
    def extents(self) -> Extents:
        if not self.ndim:
            return np.zeros((0, 0, 2), dtype=np.int64)
        return np.frombuffer(self.raw_extents, dtype=np.int64).reshape(-1, self.ndim, 2)


@dataclass(frozen=True, slots=True)
class ListedManifest:
    """A manifest file as listed in one snapshot."""

    manifest: bytes
    size_bytes: int
    num_refs: int
    snapshot: str


@dataclass(slots=True)
class Seen:
    """Facts that were checked: grows with distinct facts, not with the number of snapshots."""

    facts: set[int] = field(default_factory=set)

    def is_new(self, *parts: bytes | int | tuple[bytes, ...]) -> bool:
        """True for the first call with these parts."""
        fact = hash(parts)  # of 64 bits, and keyed: collisions do not matter
        if fact in self.facts:
            return False
        if len(self.facts) >= _MOST_FACTS:
            self.facts.clear()
        self.facts.add(fact)
        return True


@dataclass(frozen=True, slots=True, eq=False)
class ManifestTask:
    """A manifest to check, and all that is expected of it."""

    manifest: bytes
    uses: tuple[ManifestUse, ...]
    listed: tuple[ListedManifest, ...]


def manifest_tasks(
    uses: Iterable[ManifestUse], listed: Iterable[ListedManifest]
) -> list[ManifestTask]:
    """Tasks in order of id. Of equal records the first is kept, as the one to name."""
    by_use: dict[tuple[bytes, bytes, tuple[int, ...], bytes], ManifestUse] = {}
    for use in uses:
        by_use.setdefault((use.manifest, use.node_id, use.num_chunks, use.raw_extents), use)
    by_list: dict[tuple[bytes, int, int], ListedManifest] = {}
    for each in listed:
        by_list.setdefault((each.manifest, each.size_bytes, each.num_refs), each)
    found: dict[bytes, tuple[list[ManifestUse], list[ListedManifest]]] = {}
    for use in by_use.values():
        found.setdefault(use.manifest, ([], []))[0].append(use)
    for each in by_list.values():
        found.setdefault(each.manifest, ([], []))[1].append(each)
    return [
        ManifestTask(manifest, tuple(used), tuple(files))
        for manifest, (used, files) in sorted(found.items())
    ]
