"""Resource limits applied when reading an untrusted repository.

The writer of a repository chose every number in it. None of these limits is ever taken from there:
they are given when it is opened, and the defaults are far above what any honest one needs.
"""

from dataclasses import fields
from typing import Final

from frazil.dataclass import dataclass
from frazil.errors import InvalidInputError

MAX_METADATA_BYTES: Final = 2**31 - 1  # the format has no larger files

_MIB: Final = 1 << 20
_FREE_BYTES: Final = 256 * _MIB  # a file may be as large as that, however small it is stored


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits on what a reader allocates and requests.

    What exceeds them is refused with FormatError or StorageError; a stored configuration that asks
    for more gets as much as this.

    Metadata files: `metadata_bytes` decompressed, and not more than `expansion` times as much as
    they are stored in, or 256 MiB. `chunk_bytes` is for one read of one chunk, the others are for
    what a stored configuration may ask for.
    """

    metadata_bytes: int = MAX_METADATA_BYTES
    expansion: int = 1000
    chunk_bytes: int = 4 << 30
    cached_chunk_bytes: int = 1 << 30
    cached_refs: int = 100_000_000
    cached_nodes: int = 5_000_000
    preloaded_refs: int = 1_000_000
    preloaded_arrays: int = 10_000
    requests: int = 256  # at a time
    tries: int = 100
    wait_ms: int = 600_000  # before one of them
    least_request_bytes: int = 4096  # what the reference stores for local directories

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise InvalidInputError(f"{each.name} is {value!r}, expected a number above 0")

    def payload_bytes(self, stored_bytes: int) -> int:
        """Maximum size of the payload of a metadata file that is stored in so many bytes."""
        return min(self.metadata_bytes, max(_FREE_BYTES, self.expansion * stored_bytes))


DEFAULT_LIMITS: Final = Limits()
