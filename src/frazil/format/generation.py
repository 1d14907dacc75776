"""States of the format that a repository may be in: docs/generations.md.

A1a to A3e are the alphas, in MessagePack. V1pre1 and V1pre2 are FlatBuffers with the refs of the
alphas. Two states were documented: what the code did when alpha2 was written is A2e, and `alpha1`
is the document, since the code never did quite that.
"""

from enum import StrEnum
from typing import Final

from frazil.errors import FormatError

__all__ = ["CURRENT", "WRITTEN", "Generation", "read_only", "require_writable"]


class Generation(StrEnum):
    A1A = "A1a"
    A1B = "A1b"
    A1C = "A1c"
    A1D = "A1d"
    A1E = "A1e"
    ALPHA1 = "alpha1"
    A2A = "A2a"
    A2B = "A2b"
    A2C = "A2c"
    A2D = "A2d"
    A2E = "A2e"
    A2F = "A2f"
    A2G = "A2g"
    A2H = "A2h"
    A2I = "A2i"
    A2J = "A2j"
    A2K = "A2k"
    A3A = "A3a"
    A3B = "A3b"
    A3C = "A3c"
    A3D = "A3d"
    A3E = "A3e"
    V1PRE1 = "V1pre1"
    V1PRE2 = "V1pre2"
    V1 = "V1"
    V2PRE = "V2pre"
    V2 = "V2"

    @classmethod
    def of_version(cls, spec_version: int) -> "Generation":
        return cls.V1 if spec_version == 1 else cls.V2

    @property
    def spec_version(self) -> int:
        """The version whose features the generation has at most."""
        return 2 if self in {Generation.V2PRE, Generation.V2} else 1

    @property
    def has_long_ids(self) -> bool:
        """True if ids of objects have 16 bytes, and not 12."""
        return self in _LONG

    @property
    def is_written(self) -> bool:
        return self in WRITTEN


_LONG: Final = frozenset(
    {
        Generation.A1A,
        Generation.A1B,
        Generation.A1C,
        Generation.A1D,
        Generation.A1E,
        Generation.ALPHA1,
        Generation.A2A,
    }
)
CURRENT: Final = frozenset({Generation.V1, Generation.V2})
WRITTEN: Final = CURRENT | {Generation.ALPHA1, Generation.A2E}


def read_only(generation: Generation) -> FormatError:
    return FormatError(
        f"repositories of generation {generation} can only be read: `frazil migrate` makes them"
        " ones of version 2",
        kind="unsupported-spec-version",
    )


def require_writable(generation: Generation) -> None:
    if not generation.is_written:
        raise read_only(generation)
