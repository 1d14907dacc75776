"""What changed, in words and as JSON."""

from frazil.repo.diff import Diff

_SHOWN_CHUNKS = 10


def _node_sets(changes: Diff) -> list[tuple[str, list[str]]]:
    return [
        (name, sorted(map(str, getattr(changes, name))))
        for name in (
            "new_groups",
            "new_arrays",
            "deleted_groups",
            "deleted_arrays",
            "updated_groups",
            "updated_arrays",
        )
    ]


def diff_as_json(changes: Diff) -> dict[str, object]:
    return {
        **dict(_node_sets(changes)),
        "updated_chunks": {str(p): index.tolist() for p, index in changes.updated_chunks.items()},
        "moved_nodes": [[str(move.from_path), str(move.to_path)] for move in changes.moved],
    }


def diff_as_text(changes: Diff) -> str:
    lines = list[str]()
    for name, paths in _node_sets(changes):
        if paths:
            lines += [f"{name.replace('_', ' ')}:", *(f"  {path}" for path in paths)]
    if changes.moved:
        lines += ["moved nodes:"]
        lines += [f"  {move.from_path} -> {move.to_path}" for move in changes.moved]
    if changes.updated_chunks:
        lines += ["updated chunks:"]
    for path, index in changes.updated_chunks.items():
        shown = " ".join(",".join(map(str, row)) for row in index[:_SHOWN_CHUNKS].tolist())
        more = len(index) - _SHOWN_CHUNKS
        lines += [f"  {path}: {len(index)}  ({shown}{f' and {more} more' if more > 0 else ''})"]
    return "\n".join(lines)
