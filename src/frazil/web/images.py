"""The part of a chunk grid that a map shows, and the cell of each chunk.

A map has rows and columns. With two dimensions chosen these are theirs; without, all chunks follow
each other in row-major order and are wrapped. The cells of a map are at most MAX_CELLS each way: if
there are more chunks in its window, several share a cell.
"""

import struct
import zlib
from dataclasses import dataclass
from math import isqrt, prod

import numpy as np
import numpy.typing as npt

from frazil.errors import InvalidInputError
from frazil.web.explored import ChunkKind
from frazil.web.http import Asked

MAX_CELLS = 512
_MAX_WRAPPED = 2**62

type Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class MapView:
    grid: tuple[int, ...]
    axes: tuple[int, int] | None  # dimensions of rows and columns; None: wrapped
    at: tuple[int | None, ...]  # positions in the other dimensions, None for all
    rows: int  # of the whole map
    columns: int
    window: tuple[int, int, int, int]  # first and last row, first and last column; last exclusive

    @property
    def height(self) -> int:
        return min(self.window[1] - self.window[0], MAX_CELLS)

    @property
    def width(self) -> int:
        return min(self.window[3] - self.window[2], MAX_CELLS)

    @property
    def depth(self) -> int:
        """Chunks that lie behind each other at every place of the map."""
        if self.axes is None:
            return 1
        free = [n for axis, n in enumerate(self.grid) if axis not in self.axes]
        places = [place for axis, place in enumerate(self.at) if axis not in self.axes]
        return prod(n for n, place in zip(free, places, strict=True) if place is None)

    def slots(self) -> npt.NDArray[np.float64]:
        """Number of chunks that each cell stands for, (height, width)."""
        r0, r1, c0, c1 = self.window
        down, across = _shares(r1 - r0, self.height), _shares(c1 - c0, self.width)
        slots = np.outer(down, across).astype(float) * self.depth
        if self.axes is None and r1 == self.rows and self.rows:  # the last row may be short
            used = prod(self.grid) - (self.rows - 1) * self.columns
            slots[-1] -= np.diff(np.maximum(_edges(c1 - c0, self.width) + c0, used))
        return slots

    @property
    def padding(self) -> int:
        """Cells at the end of the last row that stand for no chunk: a map that is wrapped."""
        return int((self.slots()[-1:] == 0).sum()) if self.axes is None else 0

    def cells(self, index: npt.NDArray[np.uint32]) -> tuple[Ints, Ints]:
        """Rows of `index`, (n, ndim), that are shown, and the cell of each."""
        shown = np.ones(len(index), np.bool_)
        if self.axes is None:
            position = np.zeros(len(index), np.int64)
            for axis, count in enumerate(self.grid):
                position = position * count + index[:, axis]
            row, column = np.divmod(position, max(self.columns, 1))
        else:
            for axis, place in enumerate(self.at):
                if axis not in self.axes and place is not None:
                    shown &= index[:, axis] == place
            row, column = (index[:, axis].astype(np.int64) for axis in self.axes)
        r0, r1, c0, c1 = self.window
        shown &= (row >= r0) & (row < r1) & (column >= c0) & (column < c1)
        chosen = np.flatnonzero(shown)
        down = (row[chosen] - r0) * self.height // max(r1 - r0, 1)
        across = (column[chosen] - c0) * self.width // max(c1 - c0, 1)
        return chosen, down * self.width + across


def requested_view(asked: Asked, grid: tuple[int, ...]) -> MapView:
    """Without wishes: the two longest dimensions and all of the others, or wrapped if only one."""
    axes = _requested_axes(asked, grid)
    at = asked.places("chunk_at", len(grid)) or (None,) * len(grid)
    if axes is None:
        total = prod(grid)
        if total > _MAX_WRAPPED:
            raise InvalidInputError("too many chunks to be wrapped: choose two dimensions")
        columns = min(total, max(1, isqrt(total * 2)))
        rows, at = -(-total // max(columns, 1)), (None,) * len(grid)
    else:
        rows, columns = grid[axes[0]], grid[axes[1]]
    return MapView(
        grid=grid,
        axes=axes,
        at=tuple(
            None if n is None else min(n, max(k - 1, 0)) for n, k in zip(at, grid, strict=True)
        ),
        rows=rows,
        columns=columns,
        window=_requested_window(asked, rows, columns),
    )


def _requested_axes(asked: Asked, grid: tuple[int, ...]) -> tuple[int, int] | None:
    wanted = asked.values.get("map_axes") or None
    if wanted == "wrapped":
        return None
    if wanted is not None:
        return require_axes(asked.numbers("map_axes") or (), len(grid))
    long = sorted(sorted(range(len(grid)), key=lambda axis: -grid[axis])[:2])
    if len(long) < 2 or min(grid[axis] for axis in long) < 2:
        return None
    rows, columns = sorted(long, key=lambda axis: grid[axis])  # screens are wide
    return rows, columns


def require_axes(axes: tuple[int, ...], ndim: int) -> tuple[int, int]:
    if len(axes) != 2 or axes[0] == axes[1] or max(axes) >= ndim:
        raise InvalidInputError(f"expected two of {ndim} dimensions, got {list(axes)}")
    return axes[0], axes[1]


def _requested_window(asked: Asked, rows: int, columns: int) -> tuple[int, int, int, int]:
    found = asked.numbers("window") or (0, rows, 0, columns)
    if len(found) != 4:
        raise InvalidInputError(f"a window has four numbers, got {len(found)}")
    r0, r1, c0, c1 = found
    r0, c0 = min(r0, max(rows - 1, 0)), min(c0, max(columns - 1, 0))
    return r0, min(max(r1, r0 + 1), rows), c0, min(max(c1, c0 + 1), columns)


def _edges(length: int, cells: int) -> Ints:
    """Start of each cell, and the end of the last, as divided in `cells`."""
    at = np.arange(cells + 1, dtype=np.int64) * length
    return -(-at // max(cells, 1))


def _shares(length: int, cells: int) -> Ints:
    return np.diff(_edges(length, cells))


# Pictures as PNG, by hand: one filter, one zlib stream. PNG specification, chapter 5.
#
# signature | IHDR width height depth colour-type ... | IDAT zlib of rows | IEND
# chunk     length 4, type 4, data, CRC 4 of type and data; all numbers big-endian
# row       filter 1 (0: none), then R G B A of every pixel

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


NO_PICTURE = encode_png(np.zeros((1, 1, 4), np.uint8))

# Numbers as colours.

type Colours = npt.NDArray[np.uint8]  # (..., 4): red, green, blue, opacity

# Evenly spaced along the scale; what lies between is mixed, within 6 of 255 of the original.
# viridis and magma are matplotlib's (CC0); thermal, ice and balance are cmocean's (MIT).
_SCALES = {
    "viridis": (
        "440154 471164 481f70 472d7b 443a83 404688 3b528b 365d8d 31688e "
        "2c728e 287c8e 24868e 21908c 1f9a8a 20a486 27ad81 35b779 47c16e "
        "5cc863 75d054 8fd644 aadc32 c7e020 e3e418 fde725"
    ),
    "magma": (
        "000004 060517 100b2e 1d1147 2c1160 3f0f72 50127c 611880 721f81 "
        "822681 932b80 a5317e b6367a c73d73 d8456c e65164 f1605d f8735c "
        "fb8861 fd9b6b feaf78 fec287 fed698 fdeaab fcfdbf"
    ),
    "thermal": (
        "042333 062b48 0c3060 19337c 2d3396 4435a0 563b9c 654297 744992 "
        "82508f 90558b a05a87 b05f82 c0647b d06970 de7065 eb7958 f4844b "
        "f99242 fca33d fbb33d f9c441 f5d648 f0e851 e8fa5b"
    ),
    "ice": (
        "040613 0e0f22 171831 212041 2a2852 313062 383974 3c4186 3f4b96 "
        "3f57a3 3e62ac 3f6fb3 427ab7 4786bb 4f91bf 579cc3 61a8c7 6db3cc "
        "7abed0 89c9d5 9bd4da afdde1 c4e7ea d7f1f3 eafdfd"
    ),
    "balance": (
        "181c43 222b64 293889 2548b0 0b5fbe 1b74bb 3888ba 5499ba 75aabe "
        "96b9c5 b7c9cf d5dadd f1ecec e7d5cf dfbcb0 d8a392 d08b73 c87356 "
        "c0593c b63d28 a62224 901029 740e27 570e1f 3c0912"
    ),
    "grey": "000000 ffffff",
}
SCALES = tuple(_SCALES)
DIVERGING = "balance"
KIND_COLOURS = {
    ChunkKind.MISSING: "00000000",
    ChunkKind.INLINE: "e6a117ff",
    ChunkKind.NATIVE: "2f80c9ff",
    ChunkKind.PACKED: "17897fff",
    ChunkKind.VIRTUAL: "a45bc9ff",
}
CHANGE_COLOURS = {"added": "2e9e5bff", "changed": "e6a117ff", "removed": "d1495bff"}
_HUES = (
    "2f80c9ff",
    "e07b39ff",
    "2e9e5bff",
    "c2559dff",
    "e6a117ff",
    "7a5fc7ff",
    "17897fff",
    "c0392bff",
)
UNKNOWN_WRITER = "8a8f98ff"


def rgba(text: str) -> npt.NDArray[np.uint8]:
    return np.frombuffer(bytes.fromhex(text), np.uint8)


def scale(name: str, steps: int = 256) -> Colours:
    """(steps, 4), from low to high."""
    if name not in _SCALES:
        raise InvalidInputError(f"there is no scale {name!r}: {', '.join(SCALES)}")
    anchors = np.array([list(bytes.fromhex(each)) for each in _SCALES[name].split()], float)
    places = np.linspace(0, len(anchors) - 1, max(steps, 1))
    mixed = [np.interp(places, np.arange(len(anchors)), anchors[:, band]) for band in range(3)]
    colours = np.full((len(places), 4), 255, np.uint8)
    colours[:, :3] = np.stack(mixed, axis=1).round().astype(np.uint8)
    return colours


def ordered_colours(count: int) -> Colours:
    """(count, 4) for things in an order: easily told apart if they are few."""
    if count <= len(_HUES):
        return np.stack([rgba(each) for each in _HUES[:count]]) if count else scale("grey", 1)[:0]
    return scale("viridis", count + count // 8)[: -count - 1 : -1]  # without the darkest


def paint(
    values: npt.NDArray[np.float64],
    is_valid: npt.NDArray[np.bool_],
    *,
    low: float,
    high: float,
    name: str,
) -> Colours:
    """The picture of a (height, width) array; what is not valid is transparent."""
    colours = scale(name)
    with np.errstate(all="ignore"):
        width = high - low
        share = (values - low) / width if np.isfinite(width) and width > 0 else values * 0 + 0.5
    share = np.nan_to_num(share, nan=0.5, posinf=1.0, neginf=0.0)
    places = np.clip(share * 255, 0, 255).astype(np.uint8)
    pixels = colours[places]
    pixels[~is_valid] = 0
    return pixels


def hex_of(colour: npt.NDArray[np.uint8]) -> str:
    """Formats a colour as CSS does."""
    return "#" + bytes(colour[:3].tolist()).hex()
