"""Commit metadata: JSON that every reader gets back as it was given."""

import math
from collections.abc import Mapping
from typing import Any

from frazil.errors import InvalidInputError
from frazil.flatbuf.flexbuffers import Json


def require_json(metadata: Mapping[str, Any]) -> dict[str, Json]:
    """A copy of `metadata`, keys in order.

    Raises TypeError for what JSON cannot hold, and InvalidInputError for numbers that would not
    survive: NaN, infinities, integers beyond 64 bits.
    """
    return {_key(key): _value(metadata[key], key) for key in sorted(metadata)}


def _key(key: Any) -> str:
    if not isinstance(key, str):
        raise TypeError(f"metadata keys must be strings, got {key!r}")
    return key


def _value(value: Any, where: str) -> Json:
    match value:
        case None | bool() | str():
            return value
        case int():
            if not -(2**63) <= value < 2**64:
                raise _refused(value, where, "integers have at most 64 bits")
            return value
        case float():
            if not math.isfinite(value):
                raise _refused(value, where, "JSON has no such number")
            return value
        case list() | tuple():
            return [_value(item, f"{where}[{place}]") for place, item in enumerate(value)]
        case Mapping():
            return {_key(key): _value(value[key], f"{where}.{key}") for key in value}
        case _:
            raise TypeError(f"metadata {where!r} is a {type(value).__name__}, which is not JSON")


def _refused(value: float, where: str, reason: str) -> InvalidInputError:
    return InvalidInputError(f"metadata {where!r} is {value!r}: {reason}", kind="bad-metadata")


def require_message(message: object) -> None:
    if not isinstance(message, str):
        raise TypeError(f"{type(message).__name__!r} object is not a str")
