"""Objects that an earlier try has stored: the one way to use them again.

Garbage collection may delete them at any moment: nothing refers to them, and they are older than
the session that finds them. So all reuse goes through here, and gives either an object as
young as the session's own, or the answer that there is none and it must be produced again.

    copy_chunks       ids are free to choose: the object gets a second name, which no collection
                      that is under way has seen
    refresh_objects   the name is given by what refers to it: the object itself becomes young; list
                      it once more before and after the entry point changes

See docs/design/029-reused-work.md for the orders of events that are safe.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from frazil.engine.files.object_keys import chunk_key
from frazil.errors import ObjectNotFoundError, StorageError
from frazil.format.chunk_refs import ChunkRefs, RefKind
from frazil.ids import ChunkId
from frazil.objectstore.pool import Pool
from frazil.objectstore.protocol import ObjectStore


@dataclass(frozen=True, slots=True)
class ReusedObject:
    key: str
    size_bytes: int


def copy_chunks(store: ObjectStore, refs: ChunkRefs, pool: Pool) -> ChunkRefs | None:
    """The same references, to copies of their objects under new ids.

    None if one is gone, too short, or cannot be copied: the chunks are to be stored again.
    """
    native = np.flatnonzero(refs.kind == RefKind.NATIVE)
    if not len(native):
        return refs
    old, owner = np.unique(np.ascontiguousarray(refs.chunk_id[native]), axis=0, return_inverse=True)
    ends = np.zeros(len(old), np.uint64)
    np.maximum.at(ends, owner.reshape(-1), refs.offset[native] + refs.length[native])
    new = [ChunkId.random() for _ in range(len(old))]

    def copy(number: int) -> bool:
        source = chunk_key(ChunkId(old[number].tobytes()))
        try:
            size = _copy(store, source, chunk_key(new[number]))
        except StorageError:
            return False
        return size >= int(ends[number])

    if not all(pool.map(copy, range(len(old)))):
        return None
    ids = np.array(refs.chunk_id)
    raw = np.frombuffer(b"".join(one.raw for one in new), np.uint8).reshape(-1, ChunkId.size)
    ids[native] = raw[owner.reshape(-1)]
    return replace(refs, chunk_id=ids)


def refresh_objects(
    store: ObjectStore, objects: Sequence[ReusedObject], pool: Pool
) -> list[ReusedObject]:
    """Makes them as young as new ones; those that are gone, or of another size, are returned."""

    def renew(one: ReusedObject) -> bool:
        try:
            return store.refresh(one.key).size_bytes == one.size_bytes
        except ObjectNotFoundError:
            return False

    kept = pool.map(renew, objects)
    return [one for one, is_there in zip(objects, kept, strict=True) if not is_there]


def _copy(store: ObjectStore, source: str, target: str) -> int:
    """The size of the copy. Raises ObjectNotFoundError."""
    if store.capabilities.links_objects:
        size = store.refresh(source).size_bytes  # first: the new name must never look old
        if store.link(source, target):
            return size
    store.copy(source, target)
    return store.head(target).size_bytes
