"""What the codecs of an array do to its chunks."""

from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
from zarr.abc.codec import Codec
from zarr.codecs import BytesCodec, TransposeCodec
from zarr.core.array_spec import ArraySpec

from frazil.zarrstore.pipeline.unpacking import Unpack, unpack_of
from frazil.zarrstore.pipeline.zarr_parts import ChunkTransform

_KINDS = "biufcmMSUV"  # numbers, times, texts of one length, structures: any bytes are a value


@dataclass(frozen=True, slots=True)
class Layout:
    """How the values of a chunk lie in the bytes that its compressors are given."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    back: tuple[int, ...] | None  # how the axes are put back in order, None if they are in order
    size_bytes: int

    @classmethod
    def of(
        cls,
        dtype: np.dtype[Any],
        shape: tuple[int, ...],
        back: tuple[int, ...] | None = None,
    ) -> "Layout":
        return cls(dtype, shape, back, prod(shape) * dtype.itemsize)


@dataclass(frozen=True)
class Coding:
    """`unpack` undoes the compressors, None if there are others than those we know."""

    transform: ChunkTransform
    unpack: Unpack | None
    axes: tuple[tuple[int, ...], ...] | None  # of each transposition; None if there is more to do
    endian: str | None = None

    @classmethod
    def of(cls, codecs: tuple[Codec, ...]) -> "Coding | None":
        """None if a codec only works asynchronously."""
        try:
            transform = ChunkTransform(codecs=codecs)
        except TypeError:
            return None
        at = next((n for n, each in enumerate(codecs) if type(each) is BytesCodec), None)
        if at is None or not all(type(each) is TransposeCodec for each in codecs[:at]):
            return cls(transform, None, None)
        serializer: Any = codecs[at]
        axes = tuple(tuple(each.order) for each in codecs[:at] if isinstance(each, TransposeCodec))
        endian = getattr(serializer.endian, "value", serializer.endian)
        return cls(transform, unpack_of(codecs[at + 1 :]), axes, endian)

    @property
    def is_plain(self) -> bool:
        """Whether a chunk is stored as its values and nothing else."""
        return self.axes is not None and self.unpack is not None and self.unpack.is_plain

    def layout(self, spec: ArraySpec) -> Layout | None:
        """None if that is not as simple as we know it."""
        if self.axes is None or self.unpack is None:
            return None
        return _layout(spec.dtype.to_native_dtype(), spec.shape, self.axes, self.endian)


@lru_cache
def _layout(
    dtype: np.dtype[Any],
    shape: tuple[int, ...],
    axes: tuple[tuple[int, ...], ...],
    endian: str | None,
) -> Layout | None:
    if dtype.kind not in _KINDS or dtype.hasobject or dtype.itemsize == 0:
        return None
    if dtype.kind in "mM" and np.datetime_data(dtype)[0] == "generic":  # numpy loses its scale
        return None
    stored = dtype if endian is None else dtype.newbyteorder("<" if endian == "little" else ">")
    order = tuple(range(len(shape)))
    for each in axes:
        order = tuple(order[axis] for axis in each)
    is_moved = order != tuple(range(len(shape)))
    back = tuple(np.argsort(order).tolist()) if is_moved else None
    return Layout.of(stored, tuple(shape[axis] for axis in order), back)
