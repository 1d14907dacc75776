"""What the codecs of an array do to its chunks."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from zarr.abc.codec import Codec
from zarr.codecs import BytesCodec
from zarr.core.array_spec import ArraySpec

from frazil.zarrstore.pipeline.zarr_parts import ChunkTransform

_PLAIN_KINDS = "biufcmM"  # numbers and times: any bytes are a value


@dataclass(frozen=True)
class Coding:
    """`is_plain` if a chunk is stored as its values and nothing else."""

    transform: ChunkTransform
    is_plain: bool

    @classmethod
    def of(cls, codecs: tuple[Codec, ...]) -> "Coding | None":
        """None if a codec only works asynchronously."""
        try:
            transform = ChunkTransform(codecs=codecs)
        except TypeError:
            return None
        return cls(transform, len(codecs) == 1 and isinstance(codecs[0], BytesCodec))

    def stored_dtype(self, spec: ArraySpec) -> np.dtype[Any] | None:
        """How the values of a plain chunk are stored; None if they are not, or not numbers."""
        if not self.is_plain:
            return None
        codec: Any = self.transform.codecs[0]
        return _stored(spec.dtype.to_native_dtype(), getattr(codec.endian, "value", codec.endian))


@lru_cache
def _stored(dtype: np.dtype[Any], endian: str | None) -> np.dtype[Any] | None:
    if dtype.kind not in _PLAIN_KINDS:
        return None
    return dtype if endian is None else dtype.newbyteorder("<" if endian == "little" else ">")
