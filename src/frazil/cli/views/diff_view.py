"""Differences between versions, in words and as JSON: nodes, metadata, chunks."""

import json

from frazil.describe.version_diff import MISSING, MetadataChange, VersionDiff
from frazil.engine.changes.diff import Diff

_SHOWN_CHUNKS = 10
_SHOWN_VALUE = 60  # letters of a value of metadata


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


def as_json(found: VersionDiff) -> dict[str, object]:
    """Changes, and the keys of metadata that changed."""
    metadata = {
        str(path): {
            change.key: {
                side: value
                for side, value in (("before", change.before), ("after", change.after))
                if value is not MISSING
            }
            for change in lines
        }
        for path, lines in found.metadata.items()
    }
    return {**diff_as_json(found.changes), "metadata": metadata}


def as_text(found: VersionDiff) -> str:
    return _text(found.changes, {str(path): lines for path, lines in found.metadata.items()})


def diff_as_text(changes: Diff) -> str:
    return _text(changes, {})


def _text(changes: Diff, metadata: dict[str, tuple[MetadataChange, ...]]) -> str:
    lines = list[str]()
    for name, paths in _node_sets(changes):
        lines += [f"{name.replace('_', ' ')}:"] if paths else []
        for path in paths:
            lines += [f"  {path}"]
            if name.startswith("updated"):
                lines += [f"    {_line(change)}" for change in metadata.get(path, ())]
    if changes.moved:
        lines += ["moved nodes:"]
        lines += [f"  {move.from_path} -> {move.to_path}" for move in changes.moved]
    if changes.updated_chunks:
        lines += ["updated chunks:"]
    for array, index in changes.updated_chunks.items():
        shown = " ".join(",".join(map(str, row)) for row in index[:_SHOWN_CHUNKS].tolist())
        more = len(index) - _SHOWN_CHUNKS
        lines += [f"  {array}: {len(index)}  ({shown}{f' and {more} more' if more > 0 else ''})"]
    return "\n".join(lines)


def _line(change: MetadataChange) -> str:
    key = change.key.removeprefix("attributes.")
    if change.before is MISSING:
        return f"+ {key}: {_value(change.after)}"
    if change.after is MISSING:
        return f"- {key}: {_value(change.before)}"
    return f"{key}: {_value(change.before)} -> {_value(change.after)}"


def _value(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN_VALUE else text[: _SHOWN_VALUE - 3] + "..."
