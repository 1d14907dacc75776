"""Damage, the same for the same seed: what bytes become on a bad disk, or in a bad mind."""

from collections.abc import Iterator, Sequence
from random import Random

INTERESTING = (0, 1, 4, 127, 128, 255, 2**15, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1)


def mutations(data: bytes, others: Sequence[bytes], random: Random) -> Iterator[bytes]:
    """Endlessly many, each with one to four changes."""
    while True:
        out = bytearray(data)
        for _ in range(random.randint(1, 4)):
            _change(out, others, random)
        yield bytes(out)


def _change(out: bytearray, others: Sequence[bytes], random: Random) -> None:
    at = random.randint(0, max(0, len(out) - 1))
    match random.randint(0, 7):
        case 0:
            out[at : at + 1] = random.randbytes(1)
        case 1:
            if out:
                out[at] ^= 1 << random.randint(0, 7)
        case 2:
            width = random.choice((1, 2, 4, 8))
            at -= at % width
            number = random.choice(INTERESTING) % 256**width
            out[at : at + width] = number.to_bytes(width, "little")
        case 3:
            del out[at:]
        case 4:
            del out[at : at + random.randint(1, 16)]
        case 5:
            out[at:at] = random.randbytes(random.randint(1, 9))
        case 6:
            out[at:at] = out[at : at + random.randint(1, 40)]
        case 7:
            other = random.choice(others)
            start = random.randint(0, max(0, len(other) - 1))
            out[at : at + random.randint(0, 40)] = other[start : start + random.randint(1, 40)]
