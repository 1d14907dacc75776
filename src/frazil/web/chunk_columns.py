"""The chunks of one array at one snapshot, as columns, and where each of them is."""

from dataclasses import dataclass
from enum import IntEnum
from math import prod

import numpy as np
import numpy.typing as npt

from frazil.errors import InvalidInputError
from frazil.format.chunk_refs import ChunkRefs
from frazil.format.payloads import RefKind
from frazil.paths import NodePath
from frazil.repo.session import Session


class ChunkKind(IntEnum):
    """Packed chunks share an object with others."""

    MISSING = 0
    INLINE = 1
    NATIVE = 2
    PACKED = 3
    VIRTUAL = 4

    @property
    def label(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True, eq=False)
class ChunkColumns:
    """`refs` ascend by index; those of chunks that were never written are not there."""

    grid: tuple[int, ...]  # chunks along each dimension
    refs: ChunkRefs
    kind: npt.NDArray[np.uint8]  # (n,) a ChunkKind, never MISSING

    @property
    def total(self) -> int:
        """Chunks that the array has room for."""
        return prod(self.grid)

    def counts(self) -> dict[str, int]:
        """Chunks of each kind, the missing ones included."""
        found = np.bincount(self.kind, minlength=len(ChunkKind)).tolist()
        found[ChunkKind.MISSING] = self.total - len(self.kind)
        return {kind.label: found[kind] for kind in ChunkKind}

    def sizes(self) -> dict[str, int]:
        """Bytes of each kind, as the references state them."""
        length = self.refs.length
        return {
            kind.label: int(length[self.kind == kind].sum(dtype=np.uint64))
            for kind in ChunkKind
            if kind is not ChunkKind.MISSING
        }


def chunk_columns(session: Session, path: NodePath) -> ChunkColumns:
    array = session.node(path).array
    if array is None:
        raise InvalidInputError(f"there is not an array at `{path}`", kind="not-an-array")
    parts = list(session.chunk_refs(path))
    match parts:
        case []:
            refs = ChunkRefs.empty(len(array.shape))
        case [only]:
            refs = only
        case _:
            refs = ChunkRefs.concat(parts)
    return ChunkColumns(grid=array.num_chunks, refs=refs, kind=kinds_of(refs))


def kinds_of(refs: ChunkRefs) -> npt.NDArray[np.uint8]:
    kinds = np.zeros(len(refs), np.uint8)
    kinds[refs.kind == RefKind.INLINE] = ChunkKind.INLINE
    kinds[refs.kind == RefKind.VIRTUAL] = ChunkKind.VIRTUAL
    native = np.flatnonzero(refs.kind == RefKind.NATIVE)
    kinds[native] = ChunkKind.NATIVE
    kinds[native[_is_packed(refs, native)]] = ChunkKind.PACKED
    return kinds


def _is_packed(refs: ChunkRefs, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Whether the object of each row also has another chunk: by its id, or by where it begins."""
    # Ids are random: eight of their twelve bytes tell them apart.
    ids = np.ascontiguousarray(refs.chunk_id[rows, :8]).view("<u8").reshape(-1)
    order = np.argsort(ids, kind="stable")
    same = ids[order][1:] == ids[order][:-1]
    shared = np.zeros(len(rows), np.bool_)
    shared[order[1:][same]] = True
    shared[order[:-1][same]] = True
    return shared | (refs.offset[rows] > 0)
