"""Where the fields of a row are, inside the row."""

from collections.abc import Sequence
from dataclasses import dataclass
from struct import pack

from frazil.errors import InvalidInputError
from frazil.flatbuf.schema import Field, Union, inline_size


@dataclass(frozen=True, slots=True)
class Piece:
    """A slot that some row has."""

    slot: int
    size: int
    align: int


def pieces_of(field: Field) -> list[Piece]:
    if isinstance(field.kind, Union):
        return [Piece(field.slot, 1, 1), Piece(field.slot + 1, 4, 4)]
    return [Piece(field.slot, *inline_size(field.kind))]


def lay_out(pieces: Sequence[Piece]) -> tuple[dict[int, int], int]:
    """Offset of each slot inside the row, and the row's size. Wide fields first, gaps filled."""
    places: dict[int, int] = {}
    waiting = sorted(pieces, key=lambda piece: -piece.align)
    cursor = 4  # the distance to the vtable comes first
    while waiting:
        fits = next((piece for piece in waiting if cursor % piece.align == 0), None)
        if fits is None:
            cursor += 1
            continue
        waiting.remove(fits)
        places[fits.slot] = cursor
        cursor += fits.size
    if cursor > 0xFFFF:
        raise InvalidInputError(f"a row of {cursor} bytes is larger than FlatBuffers allow")
    return places, cursor


def vtable_of(places: dict[int, int], size: int, slots: int) -> bytes:
    """The vtable of rows that have the slots of `places`, out of so many."""
    return pack(f"<{2 + slots}H", 4 + 2 * slots, size, *(places.get(i, 0) for i in range(slots)))
