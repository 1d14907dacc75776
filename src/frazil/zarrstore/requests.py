"""Zarr's byte requests as ours."""

from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, SuffixByteRequest

from frazil.errors import InvalidInputError
from frazil.ranges import ByteRange, From, Last, Range


def parse_byte_request(request: ByteRequest | None) -> ByteRange | None:
    match request:
        case None:
            return None
        case RangeByteRequest(start, end) if 0 <= start <= end:
            return Range(start, end)
        case OffsetByteRequest(offset) if offset >= 0:
            return From(offset)
        case SuffixByteRequest(suffix) if suffix >= 0:
            return Last(suffix)
        case _:
            raise InvalidInputError(
                f"Unexpected byte_range, got {request}.", kind="invalid-byte-range"
            )
