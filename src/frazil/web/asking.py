"""What the parameters of a request mean. Whatever is wrong raises InvalidInputError."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from frazil.errors import InvalidInputError
from frazil.paths import ROOT, NodePath

MAX_PAGE = 1000


@dataclass(frozen=True, slots=True)
class Asked:
    """The parameters of one request."""

    values: Mapping[str, str]

    def text(self, name: str, default: str | None = None) -> str:
        found = self.values.get(name, default)
        if found is None:
            raise InvalidInputError(f"the parameter {name!r} is missing")
        return found

    def number(self, name: str, default: int, *, least: int = 0, most: int = 2**53) -> int:
        found = self.values.get(name)
        if found is None:
            return default
        if not (found.isascii() and found.isdigit() and len(found) <= 16):
            raise InvalidInputError(f"{name}={found!r} is not a whole number")
        return min(max(int(found), least), most)

    def decimal(self, name: str) -> float | None:
        found = self.values.get(name) or None
        try:
            value = None if found is None else float(found)
        except ValueError:
            raise InvalidInputError(f"{name}={found!r} is not a number") from None
        return value if value is None or math.isfinite(value) else None

    def page(self, default: int) -> tuple[int, int]:
        """Where a page begins, and how long it is at most."""
        return self.number("offset", 0), self.number("limit", default, least=1, most=MAX_PAGE)

    def path(self) -> NodePath:
        text = self.values.get("path", "/")
        return ROOT if text in {"", "/"} else NodePath(text)

    def numbers(self, name: str) -> tuple[int, ...] | None:
        """Whole numbers with commas between; none of them for an empty text."""
        found = self.values.get(name)
        if found is None:
            return None
        parts = found.split(",") if found else []
        if not all(part.isascii() and part.isdigit() and len(part) <= 16 for part in parts):
            raise InvalidInputError(f"{name}={found!r} is not a list of whole numbers")
        return tuple(map(int, parts))

    def places(self, name: str, ndim: int) -> tuple[int | None, ...] | None:
        """For each dimension a position, or `*` for all of it; None if nothing was given."""
        found = self.values.get(name)
        if not found:
            return None
        parts = found.split(",")
        if len(parts) != ndim:
            raise InvalidInputError(f"{name}={found!r} has {len(parts)} places, expected {ndim}")
        return tuple(None if part == "*" else _place(name, part) for part in parts)


def _place(name: str, part: str) -> int:
    if not (part.isascii() and part.isdigit() and len(part) <= 16):
        raise InvalidInputError(f"{part!r} in {name} is neither a whole number nor *")
    return int(part)
