"""Heads of all snapshots of version 1, many at a time: parents lead from one to the next only."""

from collections.abc import Callable, Iterator, Sequence
from itertools import batched

from frazil.assets.files import Files
from frazil.assets.layout import SNAPSHOTS
from frazil.assets.pool import Pool
from frazil.errors import FormatError, InvalidInputError, ObjectNotFoundError
from frazil.flatbuf.decode import decode_batch
from frazil.flatbuf.table import Table
from frazil.format.envelope import FileType, decode_envelope
from frazil.format.metadata import decode_metadata_of
from frazil.format.schemas import SNAPSHOT_HEAD
from frazil.format.snapshot import SnapshotHead
from frazil.ids import SnapshotId
from frazil.objectstore.protocol import Data

PREFETCHED = 64  # snapshots at a time
_TOGETHER = 64  # decoded


def prefetched(files: Files, *, width: int = PREFETCHED) -> Callable[[SnapshotId], SnapshotHead]:
    """What reads a head, from memory if it was listed."""
    names = (one.key.removeprefix(SNAPSHOTS) for one in files.store.list(SNAPSHOTS))
    ids = [found for name in names if (found := _parsed(name)) is not None]

    def fetch(some: Sequence[SnapshotId]) -> list[Data | None]:
        return [_found(files, snapshot) for snapshot in some]

    heads: dict[SnapshotId, SnapshotHead] = {}
    for some in batched(ids, _TOGETHER * max(1, width)):
        groups = list(batched(some, -(-len(some) // max(1, width))))
        data = [each for part in Pool(max(1, width)).map(fetch, groups) for each in part]
        for few in batched(zip(some, data, strict=True), _TOGETHER):
            heads.update(_decoded([(key, each) for key, each in few if each is not None]))

    def load(snapshot: SnapshotId) -> SnapshotHead:
        return heads.get(snapshot) or files.fetch_head(snapshot)

    return load


def _found(files: Files, snapshot: SnapshotId) -> Data | None:
    try:
        return files.store.get(f"{SNAPSHOTS}{snapshot}").data
    except ObjectNotFoundError:  # raised again if history leads to it
        return None


def _decoded(files: Sequence[tuple[SnapshotId, Data]]) -> dict[SnapshotId, SnapshotHead]:
    """Of what can be read; the rest is read again, alone, if history leads to it."""
    try:
        opened = [decode_envelope(data, FileType.SNAPSHOT) for _, data in files]
        if len({each.spec_version for each in opened}) != 1:
            return {}
        table = decode_batch([each.data for each in opened], SNAPSHOT_HEAD)
        heads = list(_heads(table, opened[0].spec_version))
    except FormatError:
        return {}
    return dict(zip((snapshot for snapshot, _ in files), heads, strict=True))


def _heads(table: Table, spec_version: int) -> Iterator[SnapshotHead]:
    ids, parents = table.struct("id").values, table.struct("parent_id")
    times = table.scalar("flushed_at").values.tolist()
    messages = table.string("message").to_texts()
    metadata = decode_metadata_of(table.tables("metadata"), spec_version=spec_version)
    for row, said in enumerate(metadata):
        yield SnapshotHead(
            id=SnapshotId(ids[row].tobytes()),
            parent_id=SnapshotId(parents.values[row].tobytes()) if parents.present[row] else None,
            flushed_at_us=times[row],
            message=messages[row] or "",
            metadata=said,
        )


def _parsed(name: str) -> SnapshotId | None:
    try:
        return SnapshotId.parse(name)
    except InvalidInputError:
        return None
