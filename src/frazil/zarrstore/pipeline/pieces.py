"""Which bytes of plain chunks a selection needs, and where they can be put as they are."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from frazil.zarrstore.pipeline.batch import Item
from frazil.zarrstore.pipeline.coding import Coding, Layout
from frazil.zarrstore.pipeline.placing import run_of
from frazil.zarrstore.pipeline.spans import span_of

_WHOLE = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes from `start` on that are an array of this layout, of which `selection` is wanted."""

    start: int
    is_whole: bool  # whether that is all there is of the chunk
    layout: Layout
    selection: Any
    target: memoryview | None  # where the bytes belong just as they are


def plan_pieces(items: list[Item], coding: Coding, values: npt.NDArray[Any]) -> list[Piece]:
    """Of each item. The layouts of all are known."""
    # Times have no memory that others may write to, but numbers of their size have.
    writable = values.view(np.int64) if values.dtype.kind in "mM" else values
    spec, layout = None, None
    pieces = []
    for item in items:
        if item[1] is not spec:
            spec = item[1]
            layout = coding.layout(spec)
        assert layout is not None  # noqa: S101 -- of all chunks of an array alike
        pieces.append(_piece(item, layout, values, writable))
    return pieces


def _piece(
    item: Item, layout: Layout, values: npt.NDArray[Any], writable: npt.NDArray[Any]
) -> Piece:
    selection, start = item[2], 0
    part = layout
    if not item[4] and layout.back is None:
        span = span_of(selection, layout.shape, layout.dtype.itemsize)
        if span is not None:
            start, selection = span.start, span.selection
            part = Layout.of(layout.dtype, span.shape)
    target = None
    if run_of(item, values, part) is not None:
        target = memoryview(writable[(*item[3], ...)])
    return Piece(start, part is layout, part, selection, target)


def parts_of(pieces: list[Piece]) -> npt.NDArray[np.int64] | None:
    """First and last byte wanted of each chunk; None if all are wanted whole."""
    if all(piece.is_whole for piece in pieces):
        return None
    return np.array(
        [
            (0, _WHOLE) if piece.is_whole else (piece.start, piece.start + piece.layout.size_bytes)
            for piece in pieces
        ],
        np.int64,
    )
