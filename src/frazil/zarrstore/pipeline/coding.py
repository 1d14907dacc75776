"""What the codecs of an array do to its chunks."""

from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
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

    def is_that_of(self, values: npt.NDArray[Any]) -> bool:
        """Whether values lie in memory as they do here."""
        return self.back is None and self.dtype == values.dtype


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

    def knows(self, spec: ArraySpec) -> bool:
        """Whether chunks can be laid out and unpacked here; zarr can do so with all of them."""
        return (
            self.axes is not None
            and self.unpack is not None
            and is_known(spec.dtype.to_native_dtype())
        )

    def layout(self, spec: ArraySpec) -> Layout:
        """Of a chunk that is known."""
        return _layout(spec.dtype.to_native_dtype(), spec.shape, self.axes or (), self.endian)


@lru_cache
def is_known(dtype: np.dtype[Any]) -> bool:
    if dtype.kind not in _KINDS or dtype.hasobject or dtype.itemsize == 0:
        return False
    if dtype.fields is not None:
        return all(is_known(each[0]) for each in dtype.fields.values())
    if dtype.subdtype is not None:
        return is_known(dtype.subdtype[0])
    return dtype.kind not in "mM" or np.datetime_data(dtype)[0] != "generic"  # numpy loses a scale


@lru_cache
def _layout(
    dtype: np.dtype[Any],
    shape: tuple[int, ...],
    axes: tuple[tuple[int, ...], ...],
    endian: str | None,
) -> Layout:
    stored = dtype if endian is None else dtype.newbyteorder("<" if endian == "little" else ">")
    order = tuple(range(len(shape)))
    for each in axes:
        order = tuple(order[axis] for axis in each)
    is_moved = order != tuple(range(len(shape)))
    back = tuple(np.argsort(order).tolist()) if is_moved else None
    return Layout.of(stored, tuple(shape[axis] for axis in order), back)
