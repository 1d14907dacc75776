"""Values that differ between two versions, in the chunks that changed."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from frazil.cli.options import count_of
from frazil.cli.views.values_view import describe, select
from frazil.engine.changes.diff import Diff
from frazil.engine.session.session import Session
from frazil.paths import NodePath


@dataclass(frozen=True, slots=True)
class ValueChanges:
    """Values of an array that differ, of those in changed chunks that both versions have.

    `largest` is the largest absolute difference, `at` its position; `mean` is that of all
    differences. None where values are no numbers, or missing in one of the versions.
    """

    changed: int
    compared: int
    largest: float | None = None
    at: tuple[int, ...] | None = None
    mean: float | None = None


def value_changes(old: Session, new: Session, changes: Diff) -> dict[str, ValueChanges]:
    """Changes by path, of arrays that both versions have with the same number of dimensions."""
    found = {}
    for path, index in changes.updated_chunks.items():
        was, now = old.find_node(path), new.find_node(path)
        if was is None or now is None or was.array is None or now.array is None:
            continue
        shapes = was.array.shape, now.array.shape
        if len(shapes[0]) == len(shapes[1]):
            both = tuple(map(min, *shapes)) if shapes[0] else ()
            found[str(path)] = _compare_array(old, new, path, index, both)
    return found


def _compare_array(
    old: Session,
    new: Session,
    path: NodePath,
    index: npt.NDArray[np.uint32],
    shape: tuple[int, ...],
) -> ValueChanges:
    changed = compared = numbers = 0
    largest, at, total = -1.0, None, 0.0
    for region in _regions(new, path, index, shape):
        was, now = (_read(each, path, region) for each in (old, new))
        differ = _differ(was, now)
        changed, compared = changed + int(differ.sum()), compared + differ.size
        if was.dtype.kind not in "biuf" or now.dtype.kind not in "biuf":
            continue
        difference = now.astype("f8") - was.astype("f8")
        known = differ & ~np.isnan(difference)
        numbers, total = numbers + int(known.sum()), total + float(difference[known].sum())
        sizes = np.where(known, np.abs(difference), -1.0)
        if sizes.size and sizes.max() > largest:
            largest = float(sizes.max())
            place = np.unravel_index(int(sizes.argmax()), sizes.shape)
            at = tuple(part.start + int(k) for part, k in zip(region, place, strict=True))
    if not numbers:
        return ValueChanges(changed, compared)
    return ValueChanges(changed, compared, largest, at, total / numbers)


def _regions(
    session: Session, path: NodePath, index: npt.NDArray[np.uint32], shape: tuple[int, ...]
) -> Iterator[tuple[slice, ...]]:
    """Parts of the array, one for each chunk; none beyond `shape`."""
    metadata = json.loads(session.node(path).user_data)
    grid = metadata.get("chunk_grid", {}).get("configuration", {})
    chunk = grid.get("chunk_shape", metadata["shape"])
    for row in index.tolist():
        edges = zip(row, chunk, shape, strict=True)
        region = tuple(slice(k * size, min((k + 1) * size, end)) for k, size, end in edges)
        if all(part.start < part.stop for part in region):
            yield region


def _read(session: Session, path: NodePath, region: tuple[slice, ...]) -> npt.NDArray[Any]:
    dims = describe(session, path).dims
    chosen = select(session, path, {}, dict(zip(dims, region, strict=True)))
    return chosen.values(decoded=True)


def _differ(was: npt.NDArray[Any], now: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """True where values differ; missing ones are equal."""
    differ: npt.NDArray[np.bool_] = np.asarray(was != now)
    if was.dtype.kind in "fM" and now.dtype.kind in "fM":
        missing = (np.isnat if was.dtype.kind == "M" else np.isnan)(was)
        differ &= ~(missing & (np.isnat if now.dtype.kind == "M" else np.isnan)(now))
    return differ


def values_as_text(found: dict[str, ValueChanges]) -> str:
    lines = ["changed values:"] if found else []
    for path, one in found.items():
        text = f"  {path}: {one.changed:,} of {count_of(one.compared, 'value')} compared"
        if one.largest is not None and one.at is not None:
            place = ",".join(map(str, one.at))
            text += f"; largest difference {one.largest:.6g} at {place}, mean {one.mean:.6g}"
        lines.append(text)
    return "\n".join(lines)


def values_as_json(found: dict[str, ValueChanges]) -> dict[str, object]:
    return {path: asdict(one) for path, one in found.items()}
