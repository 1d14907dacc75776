"""Heads of all snapshots of version 1, many at a time: parents lead from one to the next only."""

from collections.abc import Callable, Iterator, Sequence
from itertools import batched

from frazil.assets.files import Files
from frazil.assets.layout import SNAPSHOTS
from frazil.assets.pool import Pool
from frazil.errors import FormatError, InvalidInputError, ObjectNotFoundError
from frazil.flatbuf.decode import decode_batch
from frazil.flatbuf.flexbuffers import Json
from frazil.flatbuf.table import Table
from frazil.format.envelope import FileType, decode_envelope
from frazil.format.metadata import decode_metadata
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


def _decoded(
    files: Sequence[tuple[SnapshotId, Data]],
) -> Iterator[tuple[SnapshotId, SnapshotHead]]:
    """Of what can be read; the rest is read again, alone, if history leads to it."""
    try:
        opened = [decode_envelope(data, FileType.SNAPSHOT) for _, data in files]
        table = decode_batch([each.data for each in opened], SNAPSHOT_HEAD, strict=True)
    except FormatError:
        return
    versions = [each.spec_version for each in opened]
    for (snapshot, _), head in zip(files, _heads(table, versions), strict=True):
        yield snapshot, head


def _heads(table: Table, versions: Sequence[int]) -> Iterator[SnapshotHead]:
    ids, parents = table.struct("id").values, table.struct("parent_id")
    times = table.scalar("flushed_at").values.tolist()
    messages = table.string("message").to_texts()
    metadata = table.tables("metadata")
    edges = metadata.splits.tolist()
    for row, version in enumerate(versions):
        items = slice(edges[row], edges[row + 1])
        yield SnapshotHead(
            id=SnapshotId(ids[row].tobytes()),
            parent_id=SnapshotId(parents.values[row].tobytes()) if parents.present[row] else None,
            flushed_at_us=times[row],
            message=messages[row] or "",
            metadata=_metadata(metadata.rows, items, version),
        )


def _metadata(table: Table, rows: slice, spec_version: int) -> dict[str, Json]:
    if rows.start == rows.stop:
        return {}
    own = table.take(rows)
    names = own.string("name").pruned()  # those of others are not looked at
    return decode_metadata(own.replace(name=names), spec_version=spec_version)


def _parsed(name: str) -> SnapshotId | None:
    try:
        return SnapshotId.parse(name)
    except InvalidInputError:
        return None
