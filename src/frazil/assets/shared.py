"""Files that are decoded once for all who hold them."""

from collections.abc import Buffer, Callable
from hashlib import sha256
from weakref import WeakValueDictionary

from frazil.format.snapshot import Snapshot, decode_snapshot_lazily


class SharedSnapshots:
    """Snapshots by the bytes of their files, for as long as somebody in this process has them.

    A repository that is opened several times then has its nodes in memory once. Bytes are what
    counts, not names: other repositories have a first snapshot of the same name.
    """

    def __init__(self, decode: Callable[..., Snapshot] = decode_snapshot_lazily) -> None:
        self._decode = decode
        self._held = WeakValueDictionary[bytes, Snapshot]()

    def decode(self, data: Buffer, *, max_size: int | None = None) -> Snapshot:
        key = sha256(data, usedforsecurity=False).digest()
        found = self._held.get(key)
        if found is None:
            found = self._held[key] = self._decode(data, max_size=max_size)
        return found


shared_snapshots = SharedSnapshots()
