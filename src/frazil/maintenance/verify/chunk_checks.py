"""Checks of the chunks themselves: objects of virtual chunks, and decoding."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt

from frazil.engine.changes.chunk_reads import fetch_payload
from frazil.engine.files.files import Files
from frazil.errors import (
    IcechunkError,
    InvalidInputError,
    ObjectChangedError,
    ObjectNotFoundError,
)
from frazil.format.chunk_refs import ChunkRefs, RefKind, Virtual
from frazil.format.manifest import decode_manifest
from frazil.ids import NodeId
from frazil.maintenance.verify.manifest_checks import ArrayRefs, ManifestFacts
from frazil.maintenance.verify.problems import Place, Problem, problem
from frazil.objectstore.protocol import Data
from frazil.ranges import Range

type ChunkDecoder = Callable[[bytes, tuple[int, ...], Data], str | None]
"""Given zarr metadata, the index of a chunk and its bytes: what is wrong with them, if anything."""

_CHUNKS_AT_ONCE = 256


@dataclass(frozen=True, slots=True)
class ChunkChecks:
    """`files` gives access to virtual chunks, as far as the caller has it."""

    files: Files
    virtual: bool
    decode: ChunkDecoder | None

    @classmethod
    def find(
        cls, files: Files, *, virtual: bool, decode: ChunkDecoder | None
    ) -> "ChunkChecks | None":
        """None if there is nothing to check."""
        return cls(files, virtual, decode) if virtual or decode is not None else None

    def check(self, data: Data, facts: ManifestFacts) -> list[Problem]:
        """Checks the chunks of a manifest that could be opened."""
        try:
            manifest = decode_manifest(data)
        except IcechunkError:
            return []  # reported already
        problems: list[Problem] = []
        for part in facts.parts:
            refs = manifest.arrays.get(NodeId(part.node_id))
            if refs is None:
                continue
            if self.virtual:
                problems += self._check_virtual(part.place, refs)
            if self.decode is not None and part.uses:
                problems += self._check_decoding(part, refs, self.decode)
        return problems

    # Virtual chunks

    def _check_virtual(self, place: Place, refs: ChunkRefs) -> Iterator[Problem]:
        """The last byte of each is asked for: it tells size, existence and checksum."""
        rows = np.flatnonzero((refs.kind == RefKind.VIRTUAL) & (refs.length > 0))
        for start in range(0, len(rows), _CHUNKS_AT_ONCE):
            some = rows[start : start + _CHUNKS_AT_ONCE].tolist()
            wanted = []
            for row in some:
                payload = cast("Virtual", refs.payload(row))
                wanted.append((payload, Range(payload.length - 1, payload.length)))
            for row, found in zip(some, self.files.virtual.fetch_parts(wanted), strict=True):
                if isinstance(found, IcechunkError):
                    yield _virtual_problem(place, refs.index[row].tolist(), found)

    # Decoding

    def _check_decoding(
        self, part: ArrayRefs, refs: ChunkRefs, decode: ChunkDecoder
    ) -> Iterator[Problem]:
        use = part.uses[0]
        rows = _inside(refs, use.num_chunks)
        place = part.place
        for start in range(0, len(rows), _CHUNKS_AT_ONCE):
            some = rows[start : start + _CHUNKS_AT_ONCE].tolist()

            def attempt(row: int) -> str | None:
                try:
                    data = fetch_payload(self.files, refs.payload(row), None)
                except IcechunkError:
                    return None  # that it cannot be read is another problem
                return decode(use.user_data, tuple(refs.index[row].tolist()), data)

            for row, text in zip(some, self.files.pool.map(attempt, some), strict=True):
                if text is not None:
                    chunk = refs.index[row].tolist()
                    yield problem(
                        "chunk-undecodable", place.file, text, node=place.node, chunk=chunk
                    )


def _inside(refs: ChunkRefs, num_chunks: tuple[int, ...]) -> npt.NDArray[np.int64]:
    """Rows of chunks that are part of the array."""
    if refs.ndim != len(num_chunks):
        return np.zeros(0, dtype=np.int64)
    limits = np.array(num_chunks, dtype=np.uint64)
    return np.flatnonzero((refs.index < limits).all(axis=1)).astype(np.int64)


def _virtual_problem(place: Place, chunk: list[int], error: IcechunkError) -> Problem:
    if isinstance(error, InvalidInputError):  # one for all chunks in there
        return Problem("virtual-unauthorized", place, error.message)
    kind = "virtual-unreadable"
    if isinstance(error, ObjectChangedError):
        kind = "virtual-changed"
    elif isinstance(error, ObjectNotFoundError) or isinstance(error.__cause__, ObjectNotFoundError):
        kind = "virtual-missing"
    elif "too short" in error.message:
        kind = "virtual-out-of-bounds"
    return problem(kind, place.file, error.message, node=place.node, chunk=chunk)
