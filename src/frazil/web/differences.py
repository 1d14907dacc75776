"""What changed between two snapshots, whichever way they are related."""

from frazil.ids import SnapshotId
from frazil.repo import history
from frazil.repo.diff import Diff
from frazil.repo.merge_base import merge_base
from frazil.web.explored import Explored

MAX_PATHS = 2000  # of each kind


def difference(explored: Explored, start: SnapshotId, end: SnapshotId) -> dict[str, object]:
    """One list of changes if one snapshot leads to the other, else one for each since they met."""
    info = explored.info()
    rows = [history.require_row(info, each) for each in (start, end)]
    base = merge_base(info, *rows)
    common = None if base is None else history.snapshot_id(info, base)
    if start == end:
        sides = []
    elif common == start:
        sides = [_side(explored, start, end)]
    elif common == end:
        sides = [_side(explored, end, start)]
    elif common is None:
        sides = []
    else:
        sides = [_side(explored, common, each) for each in (start, end)]
    return {
        "from": str(start),
        "to": str(end),
        "common": None if common is None else str(common),
        "sides": sides,
    }


def _side(explored: Explored, start: SnapshotId, end: SnapshotId) -> dict[str, object]:
    found = explored.repository.diff(start, end)
    return {"from": str(start), "to": str(end), **_as_lists(found)}


def _as_lists(found: Diff) -> dict[str, object]:
    names = (
        "new_groups",
        "new_arrays",
        "deleted_groups",
        "deleted_arrays",
        "updated_groups",
        "updated_arrays",
    )
    texts = {name: sorted(getattr(found, name).texts) for name in names}
    chunks = sorted((path.text, len(index)) for path, index in found.updated_chunks.items())
    return {
        **{name: listed[:MAX_PATHS] for name, listed in texts.items()},
        "updated_chunks": {
            "path": [path for path, _ in chunks[:MAX_PATHS]],
            "chunks": [count for _, count in chunks[:MAX_PATHS]],
        },
        "moved": [[move.from_path.text, move.to_path.text] for move in found.moved[:MAX_PATHS]],
        "counts": {
            **{name: len(listed) for name, listed in texts.items()},
            "updated_chunks": sum(count for _, count in chunks),
            "moved": len(found.moved),
        },
    }
