"""Chunks stored away from the session that will commit them, such as on an executor."""

from collections.abc import Buffer
from dataclasses import dataclass

from frazil.assets.layout import chunk_key
from frazil.errors import InvalidInputError
from frazil.format.payloads import Inline, Native, Payload
from frazil.ids import ChunkId
from frazil.objectstore.protocol import ObjectStore


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
        if len(view) == 0:
            raise InvalidInputError(
                "a chunk must not be empty: no array could be decoded from it; to remove a chunk,"
                " delete it",
                kind="zero-length-chunk",
            )
        if len(view) <= self.inline_threshold_bytes:
            return Inline(bytes(view))
        chunk = ChunkId.random()
        self.store.put(chunk_key(chunk), view)
        return Native(chunk_id=chunk, offset=0, length=len(view))

    def sync(self) -> None:
        self.store.sync()
