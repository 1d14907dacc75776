"""Heads of all snapshots of version 1, many at a time: parents lead from one to the next only."""

from collections.abc import Callable

from frazil.assets.files import Files
from frazil.assets.layout import SNAPSHOTS
from frazil.assets.pool import Pool
from frazil.errors import FormatError, InvalidInputError, ObjectNotFoundError
from frazil.format.snapshot import SnapshotHead
from frazil.ids import SnapshotId

PREFETCHED = 64  # snapshots at a time


def prefetched(files: Files, *, width: int = PREFETCHED) -> Callable[[SnapshotId], SnapshotHead]:
    """What reads a head, from memory if it was listed."""
    names = (one.key.removeprefix(SNAPSHOTS) for one in files.store.list(SNAPSHOTS))
    ids = [found for name in names if (found := _parsed(name)) is not None]

    def fetch(snapshot: SnapshotId) -> SnapshotHead | None:
        try:
            return files.fetch_head(snapshot)
        except (FormatError, ObjectNotFoundError):  # raised again if history leads to it
            return None

    heads = dict(zip(ids, Pool(max(1, width)).map(fetch, ids), strict=True))

    def load(snapshot: SnapshotId) -> SnapshotHead:
        return heads.get(snapshot) or files.fetch_head(snapshot)

    return load


def _parsed(name: str) -> SnapshotId | None:
    try:
        return SnapshotId.parse(name)
    except InvalidInputError:
        return None
