"""Places that nothing must be copied to."""

import os

from frazil.assets.layout import (
    CHUNKS,
    CONFIG_YAML,
    MANIFESTS,
    OVERWRITTEN,
    REFS,
    SNAPSHOTS,
    TRANSACTIONS,
)
from frazil.errors import InvalidInputError
from frazil.objectstore.protocol import ObjectStore

_FOLDERS = (SNAPSHOTS, MANIFESTS, TRANSACTIONS, CHUNKS, OVERWRITTEN, REFS)


def require_elsewhere(source: ObjectStore, target: ObjectStore) -> None:
    """A copy inside of its source, or around it, would be mixed up with it."""
    if target is source:
        raise InvalidInputError("the target is the repository itself")
    if source.directory is not None and target.directory is not None:
        roots = (source.directory, target.directory)
        one, other = (os.path.realpath(root).rstrip("/") + "/" for root in roots)
        if one.startswith(other) or other.startswith(one):
            raise InvalidInputError(f"the target {other} is in the place of the source, {one}")


def require_no_strangers(target: ObjectStore) -> None:
    """What an interrupted copy left is welcome, anything else is not."""
    for info in target.list():
        if not info.key.startswith(_FOLDERS) and info.key != CONFIG_YAML:
            raise InvalidInputError(
                f"there is {info.key!r} at the target, which is no part of a repository",
                kind="parent-directory-not-clean",
            )
