"""Where the bytes of one chunk are.

Spec: "ChunkRef". A chunk is written in the manifest itself (inline), in an object of the
repository (native), or in a file outside of it (virtual).
"""

from dataclasses import dataclass
from enum import IntEnum

from frazil.ids import ChunkId


class RefKind(IntEnum):
    """Value of the `kind` column of ChunkRefs; ours, not stored."""

    INLINE = 1
    NATIVE = 2
    VIRTUAL = 3


@dataclass(frozen=True, slots=True)
class ETag:
    """The virtual file must still have this etag."""

    value: str


@dataclass(frozen=True, slots=True)
class LastModified:
    """The virtual file must not be newer than this."""

    seconds: int  # since 1970, more than 0


type Checksum = ETag | LastModified


@dataclass(frozen=True, slots=True)
class Inline:
    data: bytes


@dataclass(frozen=True, slots=True)
class Native:
    chunk_id: ChunkId
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class Virtual:
    location: str
    offset: int
    length: int
    checksum: Checksum | None = None


type Payload = Inline | Native | Virtual
