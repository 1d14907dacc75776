"""Names of stored things: a few random bytes, shown in Crockford base 32.

Spec: "Common Types". Upper case, big-endian bit stream, zero bits appended on the right to a
multiple of five, no padding: 12 bytes are 20 characters, 8 bytes are 13.
"""

import os
from collections.abc import Callable, Sequence
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from frazil.dataclass import dataclass
from frazil.errors import InvalidInputError

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_LETTERS = np.frombuffer(ALPHABET.encode(), dtype=np.uint8)
_VALUES = {letter: value for value, letter in enumerate(ALPHABET)} | {"I": 1, "L": 1, "O": 0}
_PAIRS = [first + second for first in ALPHABET for second in ALPHABET]  # of ten bits
_PLACES = np.full(256, 255, dtype=np.uint8)  # of each character, 255 for those not in use
_PLACES[_LETTERS] = np.arange(32, dtype=np.uint8)
_SHIFTS = np.arange(35, -1, -5, dtype=np.uint64)


def format_base32(raw: bytes) -> str:
    bits, pairs = 8 * len(raw), -(-8 * len(raw) // 10)
    number = int.from_bytes(raw, "big") << (10 * pairs - bits)
    text = "".join([_PAIRS[number >> shift & 1023] for shift in range(10 * pairs - 10, -1, -10)])
    return text[: -(-bits // 5)]


def format_ids(raw: npt.NDArray[np.uint8]) -> list[str]:
    """Text of each row of `raw`, shape (n, size)."""
    count, size = raw.shape
    width, groups = -(-size * 8 // 5), -(-size // 5)
    # Groups of five bytes, each the lower end of a number, are eight letters each.
    wide = np.zeros((count, groups, 8), dtype=np.uint8)
    padded = np.zeros((count, groups * 5), dtype=np.uint8)
    padded[:, :size] = raw
    wide[:, :, 3:] = padded.reshape(count, groups, 5)
    numbers = wide.view(">u8").astype(np.uint64)  # (count, groups, 1)
    places = (numbers >> _SHIFTS).astype(np.uint8) & 31
    letters = np.ascontiguousarray(_LETTERS[places].reshape(count, groups * 8)[:, :width])
    text = letters.tobytes().decode()
    return [text[at : at + width] for at in range(0, count * width, width)]


def parse_base32(text: str, size: int) -> bytes:
    """The bytes `text` stands for; lower case and the look-alikes I, L, O are accepted.

    Spare bits of the last character are ignored, as by the reference.
    """
    if not isinstance(text, str):
        raise TypeError(f"{type(text).__name__!r} object is not a str")
    width = -(-size * 8 // 5)
    try:
        values = [_VALUES[letter] for letter in text.upper()]
    except KeyError as error:
        raise ValueError(f"{text!r} is not base 32: it contains {error.args[0]!r}") from None
    if len(values) != width:
        raise ValueError(f"{text!r} has {len(values)} characters, expected {width}")
    number = 0
    for value in values:
        number = number << 5 | value
    return (number >> (width * 5 - size * 8)).to_bytes(size, "big")


def parse_ids(
    texts: Sequence[str], size: int = 12
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.bool_]]:
    """Ids of as many texts, (n, size), and which of them are spelled as `format_ids` does.

    The others are all zeros.
    """
    width, groups = -(-size * 8 // 5), -(-size // 5)
    spelled = np.array([len(text) == width and text.isascii() for text in texts], dtype=np.bool_)
    joined = "".join(t for t, good in zip(texts, spelled.tolist(), strict=True) if good).encode()
    places = np.zeros((len(joined) // width, groups * 8), dtype=np.uint8)
    places[:, :width] = _PLACES[np.frombuffer(joined, dtype=np.uint8)].reshape(-1, width)
    numbers = np.zeros((len(places), groups, 1), dtype=np.uint64)
    for at, shift in enumerate(_SHIFTS):
        numbers[:, :, 0] |= (places[:, at::8] & 31).astype(np.uint64) << shift
    raw = numbers.astype(">u8").view(np.uint8)[:, :, 3:].reshape(len(places), groups * 5)
    known = (places[:, :width] < 32).all(axis=1) & ~raw[:, size:].any(axis=1)  # no spare bits
    ids = np.zeros((len(texts), size), dtype=np.uint8)
    ids[spelled] = np.where(known[:, None], raw[:, :size], 0)
    spelled[spelled] = known
    return ids, spelled


@dataclass(frozen=True, slots=True)
class ObjectId:
    """Base of the typed ids; `str()` is the file name, `raw` the bytes inside files."""

    raw: bytes
    size: ClassVar[int] = 12

    def __post_init__(self) -> None:
        if len(self.raw) != self.size:
            raise ValueError(f"{type(self).__name__} needs {self.size} bytes, got {len(self.raw)}")

    def __lt__(self, other: object) -> bool:
        return self.raw < other.raw if type(other) is type(self) else NotImplemented

    def __str__(self) -> str:
        return format_base32(self.raw)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    @classmethod
    def parse(cls, text: str) -> Self:
        return cls(parse_base32(text, cls.size))

    @classmethod
    def random(cls, entropy: Callable[[int], bytes] = os.urandom) -> Self:
        return cls(entropy(cls.size))


class SnapshotId(ObjectId):
    """A commit."""

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        try:
            return cls(parse_base32(text, cls.size))
        except ValueError as error:
            raise InvalidInputError(
                f"invalid snapshot id: {error}", kind="invalid-snapshot-id"
            ) from error


class ManifestId(ObjectId):
    """A manifest file."""

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        try:
            return cls(parse_base32(text, cls.size))
        except ValueError as error:
            raise InvalidInputError(f"invalid manifest id: {error}", kind="invalid-key") from error


class ChunkId(ObjectId):
    """A chunk file, holding one chunk or a pack of them."""

    __slots__ = ()


class NodeId(ObjectId):
    """A group or array, stable through moves and edits."""

    __slots__ = ()
    size: ClassVar[int] = 8


INITIAL_SNAPSHOT = SnapshotId(bytes.fromhex("0b1cc8d6787580f0e33a6534"))
