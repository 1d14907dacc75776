"""What the server says: JSON, pictures, and errors as JSON too."""

import json
import math
from http import HTTPStatus
from typing import Any

from starlette.responses import Response

from frazil.errors import IcechunkError, InternalError, InvalidInputError, NotFoundError

_SAFE = 2**53  # beyond it JavaScript rounds whole numbers
_MAX_DOCUMENT = 4 * 2**20  # bytes of metadata that are shown


def json_answer(value: object, status: HTTPStatus = HTTPStatus.OK) -> Response:
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return Response(text, status_code=status, media_type="application/json")


def png_answer(data: bytes) -> Response:
    return Response(data, media_type="image/png")


def error_answer(error: Exception) -> Response:
    match error:
        case NotFoundError():
            status = HTTPStatus.NOT_FOUND
        case InternalError():
            status = HTTPStatus.INTERNAL_SERVER_ERROR
        case InvalidInputError():
            status = HTTPStatus.BAD_REQUEST
        case IcechunkError():  # damaged files, stores that do not answer
            status = HTTPStatus.UNPROCESSABLE_ENTITY
        case _:
            status = HTTPStatus.INTERNAL_SERVER_ERROR
    kind = error.kind if isinstance(error, IcechunkError) else type(error).__name__
    message = str(error) or type(error).__name__
    return json_answer({"error": message[:2000], "kind": kind}, status)


def finite(value: float) -> float | None:
    """A number as JSON has them; None for the others."""
    return float(value) if math.isfinite(value) else None


def readable_document(data: bytes) -> Any:
    """A JSON document in which every number is one that a browser can show; None if too large."""
    if len(data) > _MAX_DOCUMENT:
        return None
    try:
        return json.loads(data, parse_int=_whole, parse_float=_decimal, parse_constant=str)
    except (ValueError, RecursionError):
        return None  # the page shows the rest


def readable(value: Any) -> Any:
    """The same of what was decoded already: metadata of commits."""
    match value:
        case bool() | None | str():
            return value
        case int():
            return value if abs(value) < _SAFE else str(value)
        case float():
            return value if math.isfinite(value) else str(value)
        case dict():
            return {str(key): readable(each) for key, each in value.items()}
        case list() | tuple():
            return [readable(each) for each in value]
        case _:
            return str(value)


def _whole(text: str) -> int | str:
    return int(text) if len(text) < 16 else text


def _decimal(text: str) -> float | str:
    value = float(text)
    return value if math.isfinite(value) else text
