"""Local storage that is equally durable with both engines.

The reference leaves it to the operating system when a commit reaches the disk; frazil syncs what
it commits, unless told not to.
"""

from pathlib import Path
from types import ModuleType
from typing import Any

from frazil.objectstore.local import LocalStore


def storage(engine: ModuleType, root: Path, *, durable: bool = False) -> Any:
    """`durable` as far as the engine knows how to be."""
    if engine.__name__ == "frazil" and not durable:
        return engine.Storage(LocalStore(root, fsync=False))
    return engine.local_filesystem_storage(str(root))
