"""A decoder with a bug that chance alone would hardly find: the fuzzer must."""

from tests.fuzz.target import Target


def _trusting(data: bytes) -> int:
    if data[:1] == b"F" and data[1:2] == b"R" and data[2:3] == b"Z":
        return data[3 + data[3]]  # believes what it reads
    return 0


PLANTED = Target(_trusting, lambda: [b"F", b"AAAA"], ())
