"""Regions read piece by piece, so that no more of the source is in memory than a task may hold.

A region may touch far more than its own bytes: a column of values through a thousand chunks.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from frazil.paths import NodePath
from frazil.repo.session import Session
from frazil.spark.pipelines.boxes import MAX_TASK_BYTES, Cut, Region, choose_box, region_shape
from frazil.zarrstore.arrays import read_region


def read_bounded(
    session: Session,
    path: NodePath,
    region: Region,
    chunks: Sequence[int],
    *,
    itemsize: int,
    max_bytes: int = MAX_TASK_BYTES,
) -> npt.NDArray[Any]:
    """The values of a region; `chunks` are what the source is stored in."""
    parts = list(pieces(region, chunks, itemsize=itemsize, max_bytes=max_bytes))
    if len(parts) == 1:
        return read_region(session, path, region)
    made: npt.NDArray[Any] | None = None
    for part in parts:
        values = read_region(session, path, part)
        if made is None:
            made = np.empty(region_shape(region), dtype=values.dtype)
        made[_within(part, region)] = values
    return read_region(session, path, region) if made is None else made


def pieces(
    region: Region, chunks: Sequence[int], *, itemsize: int, max_bytes: int
) -> Iterator[Region]:
    """Parts of a region, each of which touches chunks of at most `max_bytes`, or one chunk."""
    first = [part.start // size for part, size in zip(region, chunks, strict=True)]
    grid = [
        max(0, -(-part.stop // size) - start)
        for part, size, start in zip(region, chunks, first, strict=True)
    ]
    one = [1] * len(grid)
    chunk_bytes = itemsize * int(np.prod(chunks, dtype=np.int64))
    cut = Cut(tuple(grid), choose_box(grid, one, one, itemsize=chunk_bytes, max_bytes=max_bytes))
    for number in range(len(cut)):
        yield tuple(
            slice(max(whole.start, (k + a.start) * n), min(whole.stop, (k + a.stop) * n))
            for a, k, n, whole in zip(cut.region(number), first, chunks, region, strict=True)
        )


def _within(part: Region, region: Region) -> Region:
    return tuple(
        slice(p.start - r.start, p.stop - r.start) for p, r in zip(part, region, strict=True)
    )
