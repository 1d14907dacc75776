"""What files are called that are written anew from others.

The same file made in the same way gets the same name, so that whoever starts again does not leave
the work of the first try behind, and finds it.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from frazil.ids import ManifestId, NodeId, SnapshotId


class Names(Protocol):
    def snapshot(self, old: SnapshotId) -> SnapshotId: ...

    def manifest(self, old: ManifestId, nodes: Iterable[NodeId]) -> ManifestId:
        """`nodes` are the arrays that it is about now."""
        ...


@dataclass(frozen=True, slots=True)
class SameNames:
    """For a place where nothing else has them."""

    def snapshot(self, old: SnapshotId) -> SnapshotId:
        return old

    def manifest(self, old: ManifestId, nodes: Iterable[NodeId]) -> ManifestId:
        del nodes
        return old


@dataclass(frozen=True, slots=True)
class DerivedNames:
    """Of files that say something else than the old ones, or stand beside them."""

    purpose: str  # in words, with all that the content depends on
    first: SnapshotId | None = None  # the root of history, which is called what it always is
    root: SnapshotId | None = None  # what that is

    def snapshot(self, old: SnapshotId) -> SnapshotId:
        if old == self.first and self.root is not None:
            return self.root
        return SnapshotId(self._digest(b"snapshot", old.raw))

    def manifest(self, old: ManifestId, nodes: Iterable[NodeId]) -> ManifestId:
        return ManifestId(self._digest(b"manifest", old.raw, *sorted(node.raw for node in nodes)))

    def _digest(self, *parts: bytes) -> bytes:
        sha = hashlib.sha256(self.purpose.encode(), usedforsecurity=False)
        for part in parts:
            sha.update(len(part).to_bytes(4, "big") + part)
        return sha.digest()[: SnapshotId.size]
