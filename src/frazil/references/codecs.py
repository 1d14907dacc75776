"""Filters and compressors of Zarr version 2 as codecs of version 3.

A codec of version 2 is named in numcodecs' registry, one of version 3 in zarr's. Some have a
version 3 of their own; the rest keep their name behind `numcodecs.`, as VirtualiZarr and zarr's
own migration do.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from zarr.abc.codec import ArrayArrayCodec, ArrayBytesCodec
from zarr.errors import UnknownCodecError
from zarr.registry import get_codec_class

from frazil.errors import InvalidInputError

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
    """What zarr makes of it. Raises InvalidInputError if that is nothing."""
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
