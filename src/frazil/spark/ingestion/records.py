"""Records of what an ingest has stored so far: a rerun finds it, and stores only the rest.

    name       that of a chunk; it follows from the ingest and from the piece of work: which
               sources it reads, in which version, and what becomes of them. Nothing is listed
    content    an Arrow table, and when it was made
    written    by executors, when what it tells of is durable
    deleted    by the driver, after the commit

No manifest refers to a record: to garbage collection, anyone's, it is garbage as are the chunks
that it tells of until they are committed. So a record may outlive them, and they may go at any
moment: references that are found are to copies of them, made for the run that asks
(frazil.assets.reuse). Records older than a day are not used.
"""

import hashlib
import json
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa

from frazil.assets.layout import chunk_key
from frazil.assets.pool import Pool
from frazil.assets.reuse import copy_chunks
from frazil.errors import ObjectNotFoundError, StorageError
from frazil.format.chunk_refs import ChunkRefs
from frazil.format.payloads import RefKind
from frazil.ids import ChunkId
from frazil.objectstore.protocol import ObjectStore
from frazil.spark.ingestion.references import COLUMNS, decode_refs, encode_refs

MAX_AGE_S = 24 * 3600
_STORED_AT = b"frazil.stored_at_s"
_AT_ONCE = 16
_REFS = pa.schema([(name, pa.binary()) for name in COLUMNS])


@dataclass(frozen=True, slots=True)
class Records:
    """Of one ingest; picklable if the store is."""

    store: ObjectStore
    scope: str  # what tells the ingest from others to the same repository

    def name(self, *identity: object) -> ChunkId:
        """Of the record of a piece of work."""
        text = json.dumps([self.scope, *identity], sort_keys=True, default=str)
        return ChunkId(hashlib.sha256(text.encode(), usedforsecurity=False).digest()[:12])

    def find(self, name: ChunkId) -> pa.Table | None:
        """What it says; None if there is none, or if it is too old or damaged."""
        try:
            data = self.store.get(chunk_key(name)).data
            with pa.ipc.open_stream(pa.py_buffer(data)) as stream:
                table: pa.Table = stream.read_all()
            stored_at_s = float(table.schema.metadata[_STORED_AT])
        except (ObjectNotFoundError, pa.ArrowInvalid, OSError, KeyError, TypeError, ValueError):
            return None
        return table if time.time() - stored_at_s < MAX_AGE_S else None

    def put(self, name: ChunkId, table: pa.Table) -> None:
        marked = table.replace_schema_metadata({_STORED_AT: repr(time.time()).encode()})
        sink = pa.BufferOutputStream()
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        with pa.ipc.new_stream(sink, marked.schema, options=options) as stream:
            stream.write_table(marked)
        self.store.put(chunk_key(name), sink.getvalue())

    def find_refs(self, name: ChunkId, ndim: int) -> ChunkRefs | None:
        """References to copies of the chunks; None if they are not all there any more."""
        table = self.find(name)
        if table is None or table.schema.names != list(COLUMNS) or table.num_rows != 1:
            return None
        row: Mapping[str, bytes] = table.to_pylist()[0]
        try:
            refs = decode_refs(row, ndim)
        except ValueError:
            return None
        return copy_chunks(self.store, refs, Pool(_AT_ONCE))

    def put_refs(self, name: ChunkId, refs: ChunkRefs) -> None:
        self.put(name, pa.Table.from_pylist([encode_refs(refs)], schema=_REFS))

    def delete(self, names: Iterable[ChunkId]) -> None:
        """What is left of them is garbage, and no reason to fail."""
        with suppress(StorageError):
            self.store.delete(chunk_key(name) for name in names)


def stores_chunks(refs: ChunkRefs) -> bool:
    """Whether there is anything that need not be stored again."""
    return bool((refs.kind == RefKind.NATIVE).any())
