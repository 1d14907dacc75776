"""Numbers with names that show the name."""

from enum import Enum, IntEnum


class NamedIntEnum(IntEnum):
    """Equal to its number, and printed as `Class.member`, as the reference's are."""

    def __str__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    def __repr__(self) -> str:
        return str(self)

    __format__ = Enum.__format__  # that of an IntEnum would be the number's
