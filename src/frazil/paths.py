"""Path of a node in the hierarchy.

Spec: "Node Paths". Absolute, `/`-separated, canonical: no `.`, `..` or empty segment, no trailing
slash but for the root. Two orders are in use, and they differ (`/a/b` and `/a-b`):
snapshots are sorted by the raw UTF-8 bytes of the path, moves in a transaction log by component.
"""

import re
from collections.abc import Iterator
from typing import Self

from frazil.dataclass import dataclass
from frazil.errors import (
    InvalidInputError,
    require_type,
)


@dataclass(frozen=True, slots=True)
class NodePath:
    text: str

    def __post_init__(self) -> None:
        require_type(self.text, str)
        if self.text.isascii() and _CANONICAL.fullmatch(self.text):
            return  # almost always; otherwise see what is wrong, if anything
        if problem := _problem(self.text):
            raise InvalidInputError(
                f"could not create path from prefix {self.text!r}: {problem}", kind="invalid-path"
            )

    def __str__(self) -> str:
        return self.text

    def __lt__(self, other: Self) -> bool:
        return self.raw < other.raw

    @classmethod
    def from_key_prefix(cls, prefix: str) -> Self:
        """The node that zarr calls `prefix`: no leading slash, empty for the root."""
        require_type(prefix, str)
        return cls("/" + prefix.strip("/"))

    @property
    def raw(self) -> bytes:
        """Sort key of snapshots."""
        return self.text.encode()

    @property
    def segments(self) -> tuple[str, ...]:
        """Sort key of moves."""
        return tuple(self.text[1:].split("/")) if self.text != "/" else ()

    @property
    def name(self) -> str:
        return self.text.rpartition("/")[2]

    @property
    def parent(self) -> "NodePath | None":
        """None for the root."""
        return NodePath(self.text.rpartition("/")[0] or "/") if self.text != "/" else None

    @property
    def ancestors(self) -> Iterator["NodePath"]:
        """Parent first, root last."""
        above = self.parent
        while above is not None:
            yield above
            above = above.parent

    @property
    def descendant_prefix(self) -> str:
        """Common prefix of the paths of all nodes below this one."""
        return self.text if self.text == "/" else self.text + "/"

    def child(self, name: str) -> "NodePath":
        return NodePath(self.descendant_prefix + name)

    def is_under(self, other: "NodePath") -> bool:
        """True if this node is strictly below `other`."""
        return self != other and self.text.startswith(other.descendant_prefix)


# A canonical path: segments that are not empty, `.` or `..`
_CANONICAL = re.compile(r"/|(?:/(?!\.{1,2}(?:/|$))[^/]+)+")


def _problem(text: str) -> str | None:
    if not text.startswith("/"):
        return "path must start with a `/` character"
    if text == "/":
        return None
    if text.endswith("/"):
        return "path must not end with a `/` character"
    if not {"", ".", ".."}.isdisjoint(text[1:].split("/")):
        return "path must be canonical, with no empty, `.` or `..` segment"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "path must be valid unicode"
    return None


ROOT = NodePath("/")
