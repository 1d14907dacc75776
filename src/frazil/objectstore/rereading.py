"""Reading an object again that is seldom replaced, without fetching what is already here."""

from typing import Protocol, runtime_checkable

from frazil.objectstore.protocol import Blob, ObjectStore


@runtime_checkable
class RereadingStore(Protocol):
    """A store that can tell whether an object is still the same. For all others there is `get`."""

    def reread(self, key: str, known: Blob | None) -> Blob:
        """What `get` returns, or `known` itself, from an earlier look, if that is still there.

        In doubt the object is read: what was stored before the call is never missed.
        Raises ObjectNotFoundError.
        """
        ...


def reread(store: ObjectStore, key: str, known: Blob | None) -> Blob:
    """The object as it is now, from a store of any kind."""
    if isinstance(store, RereadingStore):
        return store.reread(key, known)
    return store.get(key)
