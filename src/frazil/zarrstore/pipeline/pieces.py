"""Which bytes of plain chunks a selection needs, and where they can be put as they are."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from frazil.zarrstore.pipeline.batch import Item
from frazil.zarrstore.pipeline.coding import Coding, Layout
from frazil.zarrstore.pipeline.placing import run_of, writable
from frazil.zarrstore.pipeline.spans import Span, span_of

_WHOLE = np.iinfo(np.int64).max


@dataclass(slots=True)
class Pieces:
    """Of each item some bytes that are an array of a layout; of that array a selection is wanted.

    Where all of it is wanted just as it is stored, there is a target for it.
    """

    layouts: list[Layout] = field(default_factory=list)
    selections: list[Any] = field(default_factory=list)
    targets: list[memoryview | None] = field(default_factory=list)
    spans: dict[int, Span] = field(default_factory=dict)  # of items that are not read whole

    def parts(self) -> npt.NDArray[np.int64] | None:
        """First and last byte wanted of each chunk, (n, 2); None if all are wanted whole."""
        if not self.spans:
            return None
        parts = np.zeros((len(self.layouts), 2), np.int64)
        parts[:, 1] = _WHOLE
        for row, span in self.spans.items():
            parts[row] = span.start, span.stop
        return parts


def plan_pieces(items: list[Item], coding: Coding, values: npt.NDArray[Any]) -> Pieces:
    """Of items that are known to the coding, and at least one."""
    pieces = Pieces()
    place = writable(values)
    spec = items[0][1]
    whole = coding.layout(spec)
    is_direct = whole.is_that_of(values)
    for row, item in enumerate(items):
        if item[1] is not spec:
            spec = item[1]
            whole = coding.layout(spec)
        layout, selection = whole, item[2]
        if not item[4] and layout.back is None:
            span = span_of(selection, layout.shape, layout.dtype.itemsize)
            if span is not None:
                pieces.spans[row] = span
                layout, selection = Layout.of(layout.dtype, span.shape), span.selection
        pieces.layouts.append(layout)
        pieces.selections.append(selection)
        pieces.targets.append(run_of(item, place, layout) if is_direct else None)
    return pieces
