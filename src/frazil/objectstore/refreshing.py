"""Objects made as young as new ones, and deleted only as long as they are old.

Garbage collection goes by the age of objects. A writer that uses an object again refreshes it, and
a collector that listed it before that looks at its age once more in the step that deletes it, where
the store can do both in one step. See docs/design/029-reused-work.md.
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from frazil.objectstore.protocol import ObjectInfo, ObjectStore

_SECOND_US = 1_000_000


@runtime_checkable
class RefreshingStore(Protocol):
    """A store with a cheaper way than reading an object and writing it back."""

    def refresh(self, key: str) -> ObjectInfo:
        """Sets the object's time to now, and keeps its content. Raises ObjectNotFoundError."""
        ...


@runtime_checkable
class AgeCheckingStore(Protocol):
    """A store that compares an object's age and deletes it in one step."""

    def delete_older(self, keys: Sequence[str], before_us: int) -> tuple[str, ...]:
        """Deletes those that are older than `before_us`; returns the keys of the others.

        A `refresh` comes either before the step, and the object stays, or after it, and raises.
        """
        ...


def refresh(store: ObjectStore, key: str) -> ObjectInfo:
    """Makes the object as young as one that is written now. Raises ObjectNotFoundError."""
    if isinstance(store, RefreshingStore):
        return store.refresh(key)
    return rewrite(store, key)


def rewrite(store: ObjectStore, key: str) -> ObjectInfo:
    """Reads the object and writes it back: what every store can do."""
    store.put(key, store.get(key).data)
    return store.head(key)


def delete_older(store: ObjectStore, keys: Sequence[str], before_us: int) -> tuple[str, ...]:
    """Keys that were spared because they are younger; a store that cannot tell spares none."""
    if isinstance(store, AgeCheckingStore):
        return store.delete_older(keys, before_us)
    store.delete(keys)
    return ()


def is_older(modified_at_us: int, before_us: int) -> bool:
    """Compares with the latest time that is meant: a whole second may have lost its fraction."""
    is_whole = modified_at_us % _SECOND_US == 0
    return modified_at_us + (_SECOND_US - 1 if is_whole else 0) < before_us
