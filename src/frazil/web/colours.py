"""Numbers as colours."""

import numpy as np
import numpy.typing as npt

from frazil.errors import InvalidInputError
from frazil.web.chunk_columns import ChunkKind

type Colours = npt.NDArray[np.uint8]  # (..., 4): red, green, blue, opacity

# Evenly spaced along the scale; what lies between is mixed.
_SCALES = {
    "viridis": "440154 482878 3e4989 31688e 26828e 1f9e89 35b779 6ece58 b5de2b fde725",
    "magma": "000004 180f3d 440f76 721f81 9e2f7f cd4071 f1605d fd9668 feca8d fcfdbf",
    "ice": "030512 1b1a3f 2f2f6f 3b4b9a 3d6dab 4f8fb3 6eb0bd 9bcfcd cde8e3 eafdfd",
    "balance": "181c43 0c5ebe 75aabe d0d6dc f1ecec ddc3bc cf8a76 b94a3a 7d0e2a 3c0912",
    "grey": "000000 ffffff",
}
SCALES = tuple(_SCALES)
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


def ordered(count: int) -> Colours:
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
    """As CSS writes it."""
    return "#" + bytes(colour[:3].tolist()).hex()
