"""Request settings of remote stores: how many, how large, how often retried, how long to wait."""

from dataclasses import dataclass

_MIB = 1024 * 1024
_SMALLEST_PART_BYTES = 5 * _MIB  # of a multipart upload, except for the last one
_MOST_PARTS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteSettings:
    max_requests: int = 64  # at a time, of one store
    max_requests_for_object: int = 18
    request_bytes: int = 12 * _MIB  # a larger read becomes several requests
    multipart_bytes: int = 100 * _MIB  # a larger put becomes several requests
    max_tries: int = 10
    initial_backoff_ms: int = 100
    max_backoff_ms: int = 180_000
    connect_timeout_ms: int | None = None
    read_timeout_ms: int | None = None  # silence of the server
    attempt_timeout_ms: int | None = None
    operation_timeout_ms: int | None = None  # all attempts together
    conditional_create: bool = True
    conditional_update: bool = True
    metadata: bool = True
    storage_classes: tuple[tuple[str, str], ...] = ()  # key prefix, class; the first match counts
    user_agent: str | None = None

    def storage_class_of(self, key: str) -> str | None:
        fitting = (name for start, name in self.storage_classes if key.startswith(start))
        return next(fitting, None)

    def part_bytes(self, size_bytes: int) -> int:
        """The size of each part in a multipart upload of an object of `size_bytes`."""
        return max(self.request_bytes, _SMALLEST_PART_BYTES, -(-size_bytes // _MOST_PARTS))
