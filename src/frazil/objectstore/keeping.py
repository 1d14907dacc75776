"""Keeping an object that is about to be replaced, without writing it anew."""

from typing import Protocol, runtime_checkable


@runtime_checkable
class KeepingStore(Protocol):
    """A store in which an object can have two names. For all others there is `put`."""

    def keep(self, source: str, target: str) -> bool:
        """Whether `target`, a new name, holds what `source` does: also after that is replaced.

        Like an unconditional put in all else: durable after `sync`, and as old as the call.
        """
        ...
