"""One chunk, and the sums of all."""

from frazil.errors import InvalidInputError
from frazil.format.payloads import Inline, Native, Virtual
from frazil.ids import SnapshotId
from frazil.paths import NodePath
from frazil.web.chunk_columns import ChunkKind
from frazil.web.chunk_writers import UNKNOWN, chunk_writers
from frazil.web.explored import Explored


def chunk_sums(explored: Explored, snapshot: SnapshotId, path: NodePath) -> dict[str, object]:
    chunks = explored.chunks(snapshot, path)
    return {
        "snapshot": str(snapshot),
        "path": path.text,
        "grid": chunks.grid,
        "total": chunks.total,
        "counts": chunks.counts(),
        "bytes": chunks.sizes(),
    }


def chunk_facts(
    explored: Explored, snapshot: SnapshotId, path: NodePath, index: tuple[int, ...]
) -> dict[str, object]:
    chunks = explored.chunks(snapshot, path)
    inside = len(index) == len(chunks.grid) and all(
        place < count for place, count in zip(index, chunks.grid, strict=True)
    )
    if not inside:
        raise InvalidInputError(f"there is no chunk {list(index)} in a grid of {chunks.grid}")
    row = chunks.refs.find(index)
    facts: dict[str, object] = {"index": index, "kind": ChunkKind.MISSING.label}
    if row < 0:
        return facts
    writers = chunk_writers(explored, snapshot, path)
    number = int(writers.writer[row])
    facts |= {
        "kind": ChunkKind(int(chunks.kind[row])).label,
        "bytes": int(chunks.refs.length[row]),
        "commit": None if number == UNKNOWN else str(writers.commits[number]),
    }
    match chunks.refs.payload(row):
        case Inline():
            return facts
        case Native(chunk_id, offset, _):
            return facts | {"object": f"chunks/{chunk_id}", "offset": offset}
        case Virtual(location, offset, _):
            return facts | {"object": location, "offset": offset}
