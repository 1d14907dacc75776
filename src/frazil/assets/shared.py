"""Files that are decoded once for all who hold them."""

from collections.abc import Buffer, Callable
from hashlib import sha256
from weakref import WeakValueDictionary

from frazil.format.snapshot import Snapshot, decode_snapshot_lazily


class SharedSnapshots:
    """Snapshots by the bytes of their files and the limit they were decoded with, while in use.

    A repository that is opened several times then has its nodes in memory once. Bytes are what
    counts, not names: other repositories have a first snapshot of the same name. A reader with a
    narrower limit must not get what it would refuse.
    """

    def __init__(self, decode: Callable[..., Snapshot] = decode_snapshot_lazily) -> None:
        self._decode = decode
        self._held = WeakValueDictionary[tuple[bytes, int | None], Snapshot]()

    def decode(self, data: Buffer, *, max_size: int | None = None) -> Snapshot:
        key = sha256(data, usedforsecurity=False).digest(), max_size
        found = self._held.get(key)
        if found is None:
            found = self._held[key] = self._decode(data, max_size=max_size)
        return found


shared_snapshots = SharedSnapshots()
