"""Chunks that are GRIB messages, decoded by ecCodes: the Zarr codec `gribberish`.

Arrays of such chunks name this codec, whichever program wrote them. gribberish is the library that
introduced it; where gribberish is installed, it decodes them.
"""

import asyncio
from importlib.util import find_spec
from threading import Lock
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from zarr.abc.codec import ArrayBytesCodec
from zarr.core.array_spec import ArraySpec
from zarr.core.buffer import Buffer, NDBuffer
from zarr.core.common import JSON, parse_named_configuration
from zarr.registry import register_codec

from frazil.dataclass import dataclass
from frazil.errors import FormatError, InvalidInputError

NAME = "gribberish"
_COORDINATES = {"latitude": "latitudes", "longitude": "longitudes"}  # the keys of ecCodes
_one_at_a_time = Lock()  # ecCodes may be built without threads


@dataclass(frozen=True, slots=True)
class GribCodec(ArrayBytesCodec):
    """Values of a message, or its latitudes or longitudes, NaN where there are none.

    In the order in which the message has them. Messages are read, never written.
    """

    var: str | None = None
    is_fixed_size = False

    @classmethod
    def from_dict(cls, data: dict[str, JSON]) -> Self:
        _, configuration = parse_named_configuration(data, NAME, require_configuration=False)
        options = dict(configuration or {})
        var: Any = options.pop("var", None)
        if any(options.values()):
            raise InvalidInputError(
                f"the codec {NAME!r} with the options {sorted(options)} needs the package"
                " gribberish: pip install gribberish",
                kind="bad-metadata",
            )
        return cls(var)

    def to_dict(self) -> dict[str, JSON]:
        return {"name": NAME, "configuration": {"var": self.var}}

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: ArraySpec) -> int:
        raise NotImplementedError

    async def _decode_single(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> NDBuffer:
        return await asyncio.to_thread(self._decode_sync, chunk_data, chunk_spec)

    def _decode_sync(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> NDBuffer:
        values = decode_message(chunk_data.to_bytes(), self.var)
        if values.size != int(np.prod(chunk_spec.shape)):
            raise FormatError(
                f"a GRIB message of {values.size} values, expected {chunk_spec.shape}"
            )
        dtype = chunk_spec.dtype.to_native_dtype()
        shaped = values.astype(dtype, copy=False).reshape(chunk_spec.shape)
        return chunk_spec.prototype.nd_buffer.from_ndarray_like(shaped)

    async def _encode_single(self, chunk_data: NDBuffer, chunk_spec: ArraySpec) -> Buffer | None:
        return self._encode_sync(chunk_data, chunk_spec)

    def _encode_sync(self, chunk_data: NDBuffer, chunk_spec: ArraySpec) -> Buffer | None:
        del chunk_data, chunk_spec
        raise InvalidInputError("chunks that are GRIB messages cannot be written")


def decode_message(data: bytes, var: str | None) -> npt.NDArray[np.float64]:
    """Raises FormatError for what is no GRIB message."""
    try:
        import eccodes  # noqa: PLC0415 -- of the extra `grib`, and slow to load
    except ModuleNotFoundError as error:
        raise InvalidInputError(
            "reading GRIB messages needs eccodes: pip install 'frazil[grib]'"
        ) from error
    if not data.startswith(b"GRIB"):  # ecCodes would look for one further on
        raise FormatError(f"a GRIB message begins with b'GRIB', found {data[:4]!r}")
    try:
        with _one_at_a_time:
            message = eccodes.codes_new_from_message(data)
            try:
                if var in _COORDINATES:
                    return np.asarray(eccodes.codes_get_array(message, _COORDINATES[var]))
                return _values(eccodes, message)
            finally:
                eccodes.codes_release(message)
    except eccodes.CodesInternalError as error:
        raise FormatError(f"not a GRIB message that ecCodes can decode: {error}") from error


def _values(eccodes: Any, message: Any) -> npt.NDArray[np.float64]:
    eccodes.codes_set(message, "missingValue", _MISSING)
    values = np.array(eccodes.codes_get_values(message), np.float64)
    if eccodes.codes_get(message, "bitmapPresent"):
        values[values == _MISSING] = np.nan
    return values


_MISSING = float(np.finfo(np.float64).max)  # far from any value that is measured


if find_spec(NAME) is None:
    register_codec(NAME, GribCodec)
