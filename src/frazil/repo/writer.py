"""Chunks stored away from the session that will commit them, such as on an executor."""

from collections.abc import Buffer, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from frazil.assets.layout import chunk_key
from frazil.assets.pool import Pool
from frazil.format.chunk_refs import ChunkRefs, Inline, Native, Payload
from frazil.ids import ChunkId
from frazil.objectstore.protocol import ObjectStore
from frazil.repo.packing import require_not_empty, store_chunks


@dataclass(frozen=True, slots=True)
class ChunkWriter:
    """Stores chunk bytes and says where they are; picklable if the store is.

    What it stored is garbage until a session commits a reference to it. Call `sync` before
    handing references over.
    """

    store: ObjectStore
    inline_threshold_bytes: int

    def put_chunk(self, data: Buffer) -> Payload:
        """Small chunks travel in the reference itself."""
        view = memoryview(data).cast("B")
        require_not_empty(np.array([len(view)]))
        if len(view) <= self.inline_threshold_bytes:
            return Inline(bytes(view))
        chunk = ChunkId.random()
        self.store.put(chunk_key(chunk), view)
        return Native(chunk_id=chunk, offset=0, length=len(view))

    def put_chunks(
        self,
        index: npt.NDArray[np.uint32],  # (n, ndim)
        data: Sequence[Buffer],
        pool: Pool | None = None,
    ) -> ChunkRefs:
        """Many at once: small ones share an object. Objects are stored by `pool`, if given."""
        inline_bytes = self.inline_threshold_bytes
        return store_chunks(self.store, index, data, inline_bytes=inline_bytes, pool=pool)

    def sync(self) -> None:
        self.store.sync()
