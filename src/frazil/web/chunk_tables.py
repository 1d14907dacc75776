"""The commit that wrote each chunk, from the transaction logs of a snapshot's ancestors."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
import numpy.typing as npt

from frazil.engine.refs import ancestry as history
from frazil.errors import FormatError, InvalidInputError, ObjectNotFoundError
from frazil.format.chunk_refs import Inline, Native, Virtual
from frazil.format.repo_info import RepoInfo
from frazil.format.transaction_log import TransactionLog
from frazil.ids import NodeId, SnapshotId
from frazil.paths import NodePath
from frazil.web.explored import ChunkColumns, ChunkKind, Explored

MAX_COMMITS = 20_000  # whose logs are read
_AT_ONCE = 256
UNKNOWN = -1


@dataclass(frozen=True, slots=True, eq=False)
class ChunkWriters:
    """`writer` is a number of `commits`, newest first, or UNKNOWN; row for row as the chunks."""

    commits: tuple[SnapshotId, ...]  # only those that wrote something that is still there
    writer: npt.NDArray[np.int32]  # (n,)
    looked_at: int  # commits


def chunk_writers(explored: Explored, snapshot: SnapshotId, path: NodePath) -> ChunkWriters:
    """Writers by the present history: ancestors may expire, or be squashed."""
    info = explored.info()

    def make() -> ChunkWriters:
        node = explored.session(snapshot).node(path)
        return _find_writers(explored, info, snapshot, node.id, explored.chunks(snapshot, path))

    return explored.recall_of(info, ("writers", snapshot, path), make)


def _find_writers(
    explored: Explored, info: RepoInfo, snapshot: SnapshotId, node: NodeId, chunks: ChunkColumns
) -> ChunkWriters:
    steps = islice(_logs_back(info, history.require_row(info, snapshot)), MAX_COMMITS)
    writer = np.full(len(chunks.refs), UNKNOWN, np.int32)
    commits: list[SnapshotId] = []
    left, looked_at = len(writer), 0
    while left and (batch := list(islice(steps, _AT_ONCE))):
        looked_at += len(batch)
        logs = _logs(explored, [log for _, log in batch])
        for (commit, _), log in zip(batch, logs, strict=True):
            if log is None:
                continue
            left -= _note(writer, chunks, log.updated_chunks.get(node), len(commits))
            commits.append(commit)
        if any(log is not None and _creates(log, node) for log in logs):
            break
    return _compact(commits, writer, looked_at)


def _logs_back(info: RepoInfo, row: int) -> Iterator[tuple[SnapshotId, SnapshotId]]:
    """Each commit with each of its logs: those of expired ancestors are their successor's."""
    for at in history.ancestor_rows(info, row):
        commit = history.snapshot_id(info, at)
        yield commit, commit
        for raw in reversed(info.snapshots.pruned_logs(at)):
            yield commit, SnapshotId(raw)


def _logs(explored: Explored, wanted: list[SnapshotId]) -> list[TransactionLog | None]:
    files = explored.repository.files
    try:
        return list(files.fetch_logs(wanted))
    except (ObjectNotFoundError, FormatError):  # one is missing or damaged: which?
        return [_log_or_none(explored, each) for each in wanted]


def _log_or_none(explored: Explored, wanted: SnapshotId) -> TransactionLog | None:
    try:
        return explored.repository.files.fetch_log(wanted)
    except (ObjectNotFoundError, FormatError):
        return None


def _note(
    writer: npt.NDArray[np.int32],
    chunks: ChunkColumns,
    index: npt.NDArray[np.uint32] | None,
    number: int,
) -> int:
    """Records the writer of chunks that have none yet and returns their number: the newest comes
    first.
    """
    if index is None or not len(index) or index.shape[1] != len(chunks.grid):
        return 0
    rows = chunks.refs.lookup(index)
    rows = rows[rows >= 0]
    rows = rows[writer[rows] == UNKNOWN]
    writer[rows] = number
    return len(rows)


def _creates(log: TransactionLog, node: NodeId) -> bool:
    wanted = np.frombuffer(node.raw, np.uint8)
    return bool((log.new_arrays == wanted).all(axis=1).any())


def _compact(
    commits: list[SnapshotId], writer: npt.NDArray[np.int32], looked_at: int
) -> ChunkWriters:
    used, numbers = np.unique(writer, return_inverse=True)
    if len(used) and used[0] == UNKNOWN:
        used, numbers = used[1:], numbers - 1  # UNKNOWN stays -1
    # Logs of one commit may be several: the same commit is one number.
    named = [commits[each] for each in used.tolist()]
    distinct = list(dict.fromkeys(named))
    place = {commit: at for at, commit in enumerate(distinct)}
    renumbered = np.array([*(place[commit] for commit in named), UNKNOWN], np.int32)
    return ChunkWriters(commits=tuple(distinct), writer=renumbered[numbers], looked_at=looked_at)


# One chunk, and the sums of all.


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
