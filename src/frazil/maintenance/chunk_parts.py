"""Parts of chunk objects as columns: an object, where the part begins in it, how long it is.

Two references to one part are to the same bytes for ever: objects never change. So a part can be
stored elsewhere, and every reference to it be told where.
"""

import secrets
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from frazil.format.chunk_refs import ChunkRefs
from frazil.format.manifest import Manifest
from frazil.format.payloads import RefKind
from frazil.ids import ChunkId, ManifestId

type Ids = npt.NDArray[np.uint8]  # (n, 12)
type Keys = npt.NDArray[Any]  # (n,) byte strings that can be sorted and compared

_KEY_BYTES = 28


def id_keys(ids: Ids) -> Keys:
    return np.ascontiguousarray(ids).view(f"S{ids.shape[1]}").reshape(-1)


def part_keys(
    chunk_id: Ids, offset: npt.NDArray[np.uint64], length: npt.NDArray[np.uint64]
) -> Keys:
    keys = np.empty((len(chunk_id), _KEY_BYTES), dtype=np.uint8)
    keys[:, :12] = chunk_id
    keys[:, 12:20] = np.ascontiguousarray(offset, dtype=">u8").view(np.uint8).reshape(-1, 8)
    keys[:, 20:] = np.ascontiguousarray(length, dtype=">u8").view(np.uint8).reshape(-1, 8)
    return id_keys(keys)


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """Row i of each column is one part."""

    chunk_id: Ids
    offset: npt.NDArray[np.uint64]
    length: npt.NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.length)

    @property
    def bytes(self) -> int:
        return int(self.length.sum())

    @property
    def keys(self) -> Keys:
        return part_keys(self.chunk_id, self.offset, self.length)

    def take(self, rows: npt.NDArray[np.int64] | slice) -> "Parts":
        return Parts(self.chunk_id[rows], self.offset[rows], self.length[rows])

    @classmethod
    def concat(cls, parts: list["Parts"]) -> "Parts":
        return cls(
            np.concatenate([np.zeros((0, 12), dtype=np.uint8), *(p.chunk_id for p in parts)]),
            np.concatenate([np.zeros(0, dtype=np.uint64), *(p.offset for p in parts)]),
            np.concatenate([np.zeros(0, dtype=np.uint64), *(p.length for p in parts)]),
        )

    @classmethod
    def native(cls, refs: ChunkRefs) -> "Parts":
        """Those that references into the repository's own objects name, in their order."""
        rows = np.flatnonzero(refs.kind == RefKind.NATIVE)
        return cls(refs.chunk_id[rows], refs.offset[rows], refs.length[rows])


@dataclass(frozen=True, slots=True, eq=False)
class Relocation:
    """Where parts are from now on; their lengths stay."""

    keys: Keys  # ascending
    chunk_id: Ids
    offset: npt.NDArray[np.uint64]

    @classmethod
    def of(cls, old: Parts, chunk_id: Ids, offset: npt.NDArray[np.uint64]) -> "Relocation":
        """Row i of the old parts is at row i of the new places."""
        keys = old.keys
        order = np.argsort(keys, kind="stable")
        return cls(keys[order], chunk_id[order], offset[order])

    def __len__(self) -> int:
        return len(self.keys)

    def rows_of(self, keys: Keys) -> npt.NDArray[np.int64]:
        """Row of each, -1 where it stays where it is."""
        if not len(self.keys):
            return np.full(len(keys), -1, dtype=np.int64)
        rows = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[rows] == keys, rows, -1).astype(np.int64)

    def apply(self, refs: ChunkRefs) -> ChunkRefs | None:
        """The same chunks by references to where they are now; None if none of them moved."""
        native = np.flatnonzero(refs.kind == RefKind.NATIVE)
        found = self.rows_of(
            part_keys(refs.chunk_id[native], refs.offset[native], refs.length[native])
        )
        moved, rows = native[found >= 0], found[found >= 0]
        if not len(moved):
            return None
        chunk_id, offset = refs.chunk_id.copy(), refs.offset.copy()
        chunk_id[moved], offset[moved] = self.chunk_id[rows], self.offset[rows]
        return replace(refs, chunk_id=chunk_id, offset=offset)

    def apply_to(self, manifest: Manifest) -> Manifest | None:
        """A new manifest, of all its arrays; None if nothing in it moved."""
        changed = {
            node: new
            for node, refs in manifest.arrays.items()
            if (new := self.apply(refs)) is not None
        }
        if not changed:
            return None
        return Manifest(id=ManifestId.random(), arrays={**manifest.arrays, **changed})


def random_ids(count: int) -> Ids:
    """Names for so many new objects."""
    raw = secrets.token_bytes(count * ChunkId.size)
    return np.frombuffer(raw, dtype=np.uint8).reshape(count, ChunkId.size)
