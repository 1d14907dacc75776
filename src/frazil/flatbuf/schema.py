"""FlatBuffers schemas as data: the fields of tables, and their layout in a row.

A table's fields are numbered by slot; the slot is where the table's vtable keeps the field's
place, so it is the identity of a field on disk. Names exist only here. Slots that a schema does
not mention are skipped by the decoder.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field
from itertools import pairwise
from struct import pack
from types import MappingProxyType
from typing import Final

from frazil.dataclass import dataclass
from frazil.errors import InvalidInputError

SCALAR_SIZES: Final = MappingProxyType(
    {
        "?": 1,
        "u1": 1,
        "i1": 1,
        "u2": 2,
        "i2": 2,
        "u4": 4,
        "i4": 4,
        "f4": 4,
        "u8": 8,
        "i8": 8,
        "f8": 8,
    }
)


@dataclass(frozen=True, slots=True)
class Scalar:
    """One number or boolean, `default` where a row does not have it."""

    dtype: str
    default: float = 0

    def __post_init__(self) -> None:
        _require_dtype(self.dtype)


@dataclass(frozen=True, slots=True)
class Struct:
    """`size` bytes inside the row; the caller knows what they mean."""

    size: int
    align: int

    def __post_init__(self) -> None:
        _require_struct(self.size, self.align)


@dataclass(frozen=True, slots=True)
class String:
    """UTF-8 text, handed over as bytes."""


@dataclass(frozen=True, slots=True)
class Bytes:
    """`[ubyte]`"""


@dataclass(frozen=True, slots=True)
class ScalarVector:
    dtype: str

    def __post_init__(self) -> None:
        _require_dtype(self.dtype)


@dataclass(frozen=True, slots=True)
class StructVector:
    size: int
    align: int

    def __post_init__(self) -> None:
        _require_struct(self.size, self.align)


@dataclass(frozen=True, slots=True)
class StringVector:
    """`[string]`"""


@dataclass(frozen=True, slots=True)
class TableVector:
    schema: "TableSchema"
    striped: bool = False  # how many rows are laid out when they are encoded: see encode.py


@dataclass(frozen=True, slots=True)
class SubTable:
    schema: "TableSchema"


@dataclass(frozen=True, slots=True)
class Union:
    """One of several tables. Takes two slots: the type (u8) at the field's slot, then the value."""

    variants: Mapping[int, "TableSchema"] = field(hash=False)

    def __post_init__(self) -> None:
        if not all(0 < code < 256 for code in self.variants):
            raise ValueError(f"union types are 1 to 255, found {sorted(self.variants)}")
        object.__setattr__(self, "variants", MappingProxyType(dict(self.variants)))

    def __reduce__(self) -> tuple[object, ...]:  # a mapping proxy cannot be pickled
        return (Union, (dict(self.variants),))


type Kind = (
    Scalar
    | Struct
    | String
    | Bytes
    | ScalarVector
    | StructVector
    | StringVector
    | TableVector
    | SubTable
    | Union
)


@dataclass(frozen=True, slots=True)
class Field:
    """A named slot. The decoder refuses rows that lack a `required` one."""

    name: str
    slot: int
    kind: Kind
    required: bool = False


@dataclass(frozen=True, slots=True)
class TableSchema:
    name: str
    fields: tuple[Field, ...]

    def __post_init__(self) -> None:
        names = [each.name for each in self.fields]
        if len(set(names)) < len(names):
            raise ValueError(f"{self.name} has two fields of one name")
        slots = sorted(slot for each in self.fields for slot in slots_of(each))
        if (slots and slots[0] < 0) or any(a == b for a, b in pairwise(slots)):
            raise ValueError(f"{self.name} has a slot that is negative or used twice")

    def __hash__(self) -> int:
        # By name alone: schemas are keys of caches, and deep ones have hundreds of parts.
        return hash(self.name)

    def field(self, name: str) -> Field:
        for each in self.fields:
            if each.name == name:
                return each
        raise KeyError(f"{self.name} has no field {name!r}")

    @property
    def slot_count(self) -> int:
        """One more than the highest slot described."""
        return 1 + max((slot for each in self.fields for slot in slots_of(each)), default=-1)


def slots_of(wanted: Field) -> tuple[int, ...]:
    if isinstance(wanted.kind, Union):
        return (wanted.slot, wanted.slot + 1)
    return (wanted.slot,)


def inline_size(kind: Kind) -> tuple[int, int]:
    """Bytes and alignment of a field of this kind inside its row (a union: of its value)."""
    match kind:
        case Scalar(dtype):
            return SCALAR_SIZES[dtype], SCALAR_SIZES[dtype]
        case Struct(size, align):
            return size, align
        case _:
            return 4, 4  # an offset


def element_size(kind: Kind) -> tuple[int, int]:
    """Bytes and alignment of the elements of a vector of this kind."""
    match kind:
        case ScalarVector(dtype):
            return SCALAR_SIZES[dtype], SCALAR_SIZES[dtype]
        case StructVector(size, align):
            return size, align
        case _:
            return 4, 4  # an offset


def _require_dtype(dtype: str) -> None:
    if dtype not in SCALAR_SIZES:
        raise ValueError(f"not a scalar type: {dtype!r}, expected one of {', '.join(SCALAR_SIZES)}")


def _require_struct(size: int, align: int) -> None:
    if align not in {1, 2, 4, 8} or size <= 0 or size % align:
        raise ValueError(f"not a struct: {size} bytes aligned to {align}")


# -------------------------------------------------------------------------------------------------
# Layout of the fields inside a row.


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
