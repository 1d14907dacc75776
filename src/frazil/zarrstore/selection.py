"""What numpy's basic indices select of an array: integers, slices, `...`."""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import index
from types import EllipsisType
from typing import SupportsIndex

from frazil.errors import InvalidInputError

type Place = SupportsIndex | slice | EllipsisType
type Selection = Place | tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Selected:
    """One slice for each axis, with bounds inside it; the `dropped` axes were integers."""

    slices: tuple[slice, ...]
    dropped: tuple[int, ...]

    @property
    def lengths(self) -> tuple[int, ...]:
        """Of all axes, dropped ones included."""
        return tuple(len(range(each.start, each.stop, each.step)) for each in self.slices)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(n for axis, n in enumerate(self.lengths) if axis not in self.dropped)


def select(selection: Selection, shape: Sequence[int]) -> Selected:
    """Raises InvalidInputError for what is no selection of an array of that shape."""
    places = _one_for_each_axis(selection, len(shape))
    slices = tuple(
        _bounded(place, length, axis)
        for axis, (place, length) in enumerate(zip(places, shape, strict=True))
    )
    dropped = tuple(axis for axis, place in enumerate(places) if not isinstance(place, slice))
    return Selected(slices, dropped)


def _one_for_each_axis(selection: Selection, ndim: int) -> list[SupportsIndex | slice]:
    given = selection if isinstance(selection, tuple) else (selection,)
    if not any(place is Ellipsis for place in given):
        given = (*given, Ellipsis)
    at = next(number for number, place in enumerate(given) if place is Ellipsis)
    before = [place for place in given[:at] if not isinstance(place, EllipsisType)]
    after = [place for place in given[at + 1 :] if not isinstance(place, EllipsisType)]
    missing = ndim - len(before) - len(after)
    if missing < 0 or len(before) + len(after) + 1 != len(given):
        raise InvalidInputError(f"{selection!r} does not select from {ndim} dimensions")
    return [*before, *[slice(None)] * missing, *after]


def _bounded(place: SupportsIndex | slice, length: int, axis: int) -> slice:
    try:
        if isinstance(place, slice):
            found = range(length)[place]
        else:
            at = range(length)[index(place)]
            found = range(at, at + 1)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"{place!r} is not an integer, a slice or `...`") from error
    except IndexError as error:
        raise InvalidInputError(
            f"{place} is outside of axis {axis}, which has {length} places"
        ) from error
    if found.step < 0:
        raise InvalidInputError(f"{place} goes backwards along axis {axis}")
    return slice(found.start, max(found.start, found.stop), found.step)
