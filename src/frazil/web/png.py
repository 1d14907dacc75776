"""Pictures as PNG, by hand: one filter, one zlib stream. PNG specification, chapter 5.

signature | IHDR width height depth colour-type ... | IDAT zlib of rows | IEND
chunk     length 4, type 4, data, CRC 4 of type and data; all numbers big-endian
row       filter 1 (0: none), then R G B A of every pixel
"""

import struct
import zlib

import numpy as np
import numpy.typing as npt

SIGNATURE = b"\x89PNG\r\n\x1a\n"
_RGBA = 6


def encode_png(pixels: npt.NDArray[np.uint8]) -> bytes:
    """`pixels` are (height, width, 4): red, green, blue and opacity."""
    height, width, _ = pixels.shape
    rows = np.zeros((height, 1 + 4 * width), np.uint8)
    rows[:, 1:] = pixels.reshape(height, 4 * width)
    header = struct.pack(">IIBBBBB", width, height, 8, _RGBA, 0, 0, 0)
    data = zlib.compress(rows.tobytes(), 6)
    return SIGNATURE + _chunk(b"IHDR", header) + _chunk(b"IDAT", data) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
