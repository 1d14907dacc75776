"""Which bytes of a plain chunk a selection needs.

The values of a chunk lie in C order. A selection of few places along the first axes, and of any
along the others, needs one run of bytes: that of the rows between its first and its last.
"""

from dataclasses import dataclass
from math import prod
from typing import Any

WORTHWHILE_BYTES = 1 << 15  # a request for less is not worth a plan of its own


@dataclass(frozen=True, slots=True)
class Span:
    """Bytes `start` to `stop` are an array of this shape, of which `selection` is wanted."""

    start: int
    stop: int
    shape: tuple[int, ...]
    selection: tuple[Any, ...]


def span_of(selection: Any, shape: tuple[int, ...], itemsize: int) -> Span | None:
    """None if the whole chunk might as well be fetched."""
    whole = prod(shape) * itemsize
    if whole < WORTHWHILE_BYTES or not isinstance(selection, tuple) or len(selection) != len(shape):
        return None
    first, inner = 0, whole  # where the span starts, and the bytes of one place along the axis
    narrowed: list[Any] = []
    kept: list[int] = []
    for part, length in zip(selection, shape, strict=True):
        places = _places(part, length)
        if not places or places.step < 0:
            return None
        inner //= length
        first += places[0] * inner
        kept.append(places[-1] + 1 - places[0])
        narrowed.append(0 if isinstance(part, int) else slice(0, kept[-1], places.step))
        if kept[-1] > 1:
            break
    size, axes = kept[-1] * inner, len(kept)
    if whole - size < WORTHWHILE_BYTES:
        return None
    return Span(first, first + size, (*kept, *shape[axes:]), (*narrowed, *selection[axes:]))


def _places(part: Any, length: int) -> range:
    """The places that are selected along an axis; none if that is not a plain selection."""
    if isinstance(part, int):
        return range(length)[part : part + 1]
    return range(length)[part] if isinstance(part, slice) else range(0)
