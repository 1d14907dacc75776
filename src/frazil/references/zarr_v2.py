"""Metadata of Zarr version 2 as metadata of version 3, for arrays whose chunks stay as they are.

Names of dimensions move from the attribute `_ARRAY_DIMENSIONS` to where version 3 has them. In
version 2 xarray takes the fill value for the mark of missing data; in version 3 that mark is the
attribute `_FillValue`, so it is written there too, in the form in which xarray reads it.
"""

import struct
from base64 import standard_b64encode
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from zarr.abc.codec import ArrayArrayCodec, ArrayBytesCodec
from zarr.core.dtype import get_data_type_from_json
from zarr.errors import UnknownCodecError
from zarr.registry import get_codec_class

from frazil.errors import InvalidInputError

# Filters and compressors of Zarr version 2 as codecs of version 3.
#
# A codec of version 2 is named in numcodecs' registry, one of version 3 in zarr's. Some have a
# version 3 of their own; the rest keep their name behind `numcodecs.`, as VirtualiZarr and zarr's
# own migration do.

_BLOSC_SHUFFLES = {0: "noshuffle", 1: "shuffle", 2: "bitshuffle"}
_OF_TEXT = frozenset({"vlen-utf8", "vlen-bytes"})
# Streams that are the same under other names. tifffile names all its codecs after imagecodecs.
_SAME_STREAM = {
    "imagecodecs_deflate": "zlib",
    "imagecodecs_zlib": "zlib",
    "imagecodecs_zlibng": "zlib",
    "imagecodecs_gzip": "gzip",
    "imagecodecs_zstd": "zstd",
}

type CodecDocument = dict[str, Any]


def codec_documents(
    filters: Sequence[Mapping[str, Any]],
    compressor: Mapping[str, Any] | None,
    *,
    order: str,
    ndim: int,
    endian: str | None,
    itemsize: int,
) -> list[CodecDocument]:
    """The codecs of a version 3 array, in the order in which they encode."""
    given = [*filters, *([] if compressor is None else [compressor])]
    codecs = [_codec(config, itemsize) for config in given]
    kinds = [_codec_class(codec) for codec in codecs]
    on_arrays = sum(issubclass(kind, ArrayArrayCodec) for kind in kinds)
    if any(issubclass(kind, ArrayArrayCodec) for kind in kinds[on_arrays:]):
        raise InvalidInputError(
            f"the codecs {[codec['name'] for codec in codecs]} cannot be in this order in version 3"
        )
    has_serializer = any(issubclass(kind, ArrayBytesCodec) for kind in kinds)
    if order == "F" and ndim > 1:
        codecs.insert(0, {"name": "transpose", "configuration": {"order": [*range(ndim)][::-1]}})
        on_arrays += 1
    if not has_serializer:
        codecs.insert(on_arrays, _bytes_codec(endian))
    return codecs


def _bytes_codec(endian: str | None) -> CodecDocument:
    if endian is None:
        return {"name": "bytes"}
    return {"name": "bytes", "configuration": {"endian": endian}}


def _codec(config: Mapping[str, Any], itemsize: int) -> CodecDocument:
    name: Any = config.get("id")
    options = {key: value for key, value in config.items() if key != "id"}
    if not isinstance(name, str):
        raise InvalidInputError(f"the codec {config!r} has no id")
    known = _SAME_STREAM.get(name)
    if known is not None:
        name, options = known, {"level": options.get("level") or 1}
    match name:
        case "gzip":
            return {"name": "gzip", "configuration": {"level": options.get("level", 1)}}
        case "zstd":
            level, checksum = options.get("level", 0), bool(options.get("checksum", False))
            return {"name": "zstd", "configuration": {"level": level, "checksum": checksum}}
        case "blosc":
            return _blosc(options, itemsize)
        case "grib":
            # The name under which GRIB messages are known in version 3: those who read them with
            # gribberish read ours, and we read theirs.
            return {"name": "gribberish", "configuration": {"var": options.get("var")}}
        case _ if name in _OF_TEXT or name.startswith("imagecodecs_"):
            return {"name": name, "configuration": options}
        case _:
            return {
                "name": f"numcodecs.{name.removeprefix('numcodecs.')}",
                "configuration": options,
            }


def _blosc(options: Mapping[str, Any], itemsize: int) -> CodecDocument:
    shuffle = options.get("shuffle", 1)
    if shuffle == -1:  # numcodecs: by bits for single bytes, else by bytes
        shuffle = 2 if itemsize == 1 else 1
    if not isinstance(shuffle, int) or shuffle not in _BLOSC_SHUFFLES:
        raise InvalidInputError(f"blosc's shuffle is {shuffle!r}, expected -1, 0, 1 or 2")
    return {
        "name": "blosc",
        "configuration": {
            "cname": options.get("cname", "lz4"),
            "clevel": options.get("clevel", 5),
            "shuffle": _BLOSC_SHUFFLES[shuffle],
            "typesize": itemsize,
            "blocksize": options.get("blocksize", 0),
        },
    }


def _codec_class(document: CodecDocument) -> type[Any]:
    """Returns zarr's class of a codec. Raises InvalidInputError if there is none."""
    name = document["name"]
    try:
        found = get_codec_class(name)
        found.from_dict(document)
    except (UnknownCodecError, KeyError) as error:
        raise InvalidInputError(
            f"zarr knows no codec {name!r} for arrays of version 3", kind="bad-metadata"
        ) from error
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InvalidInputError(
            f"the codec {document!r} is not one that zarr understands: {error}",
            kind="bad-metadata",
        ) from error
    return found


_DIMENSIONS = "_ARRAY_DIMENSIONS"
_FILL = "_FillValue"
_OBJECT_CODECS = frozenset({"vlen-utf8", "vlen-bytes"})


def group_document(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {"zarr_format": 3, "node_type": "group", "attributes": dict(attributes)}


def array_document(array: Mapping[str, Any], attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The `zarr.json` for a `.zarray` and its `.zattrs`. Raises InvalidInputError."""
    shape, chunks = array["shape"], array["chunks"]  # checked by the reader of the chunks
    filters = _filters(array.get("filters"))
    dtype = _data_type(array.get("dtype"), filters)
    native = dtype.to_native_dtype()
    fill, fill_json = _fill_value(dtype, array.get("fill_value"))
    names = attributes.get(_DIMENSIONS)
    document: dict[str, Any] = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": shape,
        "data_type": dtype.to_json(zarr_format=3),
        "chunk_grid": {
            "name": "regular",
            "configuration": {"chunk_shape": [max(length, 1) for length in chunks]},
        },
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": fill_json,
        "codecs": codec_documents(
            filters,
            _compressor(array.get("compressor")),
            order=array.get("order", "C"),
            ndim=len(shape),
            endian=_endian(native),
            itemsize=native.itemsize,
        ),
        "attributes": _attributes(attributes, native, fill),
    }
    if names is not None:
        if not isinstance(names, list) or len(names) != len(shape) or not _are_names(names):
            raise InvalidInputError(f"{_DIMENSIONS} is {names!r}, expected {len(shape)} names")
        document["dimension_names"] = names
    return document


def _data_type(text: Any, filters: list[Mapping[str, Any]]) -> Any:
    codec = next((each.get("id") for each in filters if each.get("id") in _OBJECT_CODECS), None)
    try:
        name = [tuple(field) for field in text] if isinstance(text, list) else text
        return get_data_type_from_json({"name": name, "object_codec_id": codec}, zarr_format=2)
    except (ValueError, TypeError, KeyError) as error:
        raise InvalidInputError(
            f"the data type {text!r} has no counterpart in Zarr version 3", kind="bad-metadata"
        ) from error


def _filters(given: Any) -> list[Mapping[str, Any]]:
    if given is None:
        return []
    if isinstance(given, list) and all(isinstance(each, Mapping) for each in given):
        return given
    raise InvalidInputError(f"filters is {given!r}, expected a list of objects or null")


def _are_names(given: list[Any]) -> bool:
    return all(name is None or isinstance(name, str) for name in given)


def _compressor(given: Any) -> Mapping[str, Any] | None:
    if given is None or isinstance(given, Mapping):
        return given
    raise InvalidInputError(f"compressor is {given!r}, expected an object or null")


def _fill_value(dtype: Any, given: Any) -> tuple[Any, Any]:
    """The value, or None if there is none, and how version 3 says it."""
    if given is None:
        return None, dtype.to_json_scalar(dtype.default_scalar(), zarr_format=3)
    if isinstance(given, str) and given == "nan":  # some writers do not spell it NaN
        given = "NaN"
    try:
        with np.errstate(over="ignore"):  # the largest double is infinite as a float
            value = dtype.from_json_scalar(given, zarr_format=2)
            return value, dtype.to_json_scalar(value, zarr_format=3)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(
            f"fill_value is {given!r}, which is no {dtype.to_native_dtype()}", kind="bad-metadata"
        ) from error


def _endian(dtype: np.dtype[Any]) -> str | None:
    if dtype.itemsize == 1 or dtype.kind in "SVOTb":
        return None
    return "big" if dtype.newbyteorder("S").isnative else "little"


def _attributes(given: Mapping[str, Any], dtype: np.dtype[Any], fill: Any) -> dict[str, Any]:
    attributes = {name: value for name, value in given.items() if name != _DIMENSIONS}
    mark = fill if fill is not None else attributes.pop(_FILL, None)
    try:
        encoded = None if mark is None else _encode_mark(mark, dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(f"{_FILL} is {mark!r}, which is no {dtype}") from error
    if encoded is not None:
        attributes[_FILL] = encoded
    return attributes


def _encode_mark(mark: Any, dtype: np.dtype[Any]) -> Any:
    """A missing value as xarray writes it to the attributes of a version 3 array."""
    match dtype.kind:
        case "f":
            return standard_b64encode(struct.pack("<d", float(mark))).decode()
        case "i" | "u":
            return int(mark)
        case "b":
            return bool(mark)
        case _:
            return None  # xarray has no form for it, or cannot read its own
