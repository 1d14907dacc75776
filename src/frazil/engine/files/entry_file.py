"""The one door to the entry point: every write of `repo`, or of a ref of an older version.

Nothing is written here without a precondition. A replacement compares with exactly what the new
content was computed from, which its caller has to present, and copies that to `backup` first.
`tests/test_architecture.py` checks that no other module writes these files.
"""

from collections.abc import Callable

from frazil.objectstore.protocol import Absent, Blob, Data, Matches, ObjectStore


def no_wait() -> None:
    """There is nothing to wait for."""


def create_entry(store: ObjectStore, key: str, data: Data) -> str:
    """Writes a file that must not exist yet; returns its version.

    Raises PreconditionFailedError if it exists.
    """
    return store.put(key, data, when=Absent())


def replace_entry(
    store: ObjectStore,
    key: str,
    old: Blob,
    data: Data,
    *,
    backup: str,
    ready: Callable[[], None] = no_wait,
) -> str:
    """Replaces `old`, what `data` was computed from; returns the new version.

    `old` is at the key `backup` before. `ready` waits until what `data` refers to is stored.
    Raises PreconditionFailedError if the file is no longer `old`. Then the backup may hold what
    is there instead.
    """
    if not store.link(key, backup):
        store.put(backup, old.data)
    ready()
    # What `data` refers to, backup included, must not be what a power failure can still take.
    if not store.capabilities.syncs_before_replacing:
        store.sync()
    return store.put(key, data, when=Matches(old.version, old.data))


def move_ref(store: ObjectStore, key: str, version: str, data: Data) -> str:
    """Replaces the file of a branch of version 1, which has no backups; returns the new version.

    `version` is that of the file that `data` was computed from.
    """
    return store.put(key, data, when=Matches(version))
