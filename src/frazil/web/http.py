"""Requests and responses of the server: JSON, images, and errors as JSON."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from http import HTTPStatus
from typing import Any

from starlette.responses import Response

from frazil.errors import IcechunkError, InternalError, InvalidInputError, NotFoundError
from frazil.paths import ROOT, NodePath

_SAFE = 2**53  # beyond it JavaScript rounds whole numbers
_MAX_DOCUMENT = 4 * 2**20  # bytes of metadata that are shown


def json_answer(value: object, status: HTTPStatus = HTTPStatus.OK) -> Response:
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return Response(text, status_code=status, media_type="application/json")


def page_answer(message: str, status: HTTPStatus) -> Response:
    """A page for a person where there is none of the explorer's to show."""
    text = escape(message)
    body = (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{status.phrase}</title>"
        "<meta name=viewport content='width=device-width'>"
        "<link rel=stylesheet href=/static/style.css>"
        f"<main><div class=reading><h1>{status.phrase}</h1><p class='notice bad'>{text}</p></div>"
        "</main></html>"
    )
    return Response(body, status_code=status, media_type="text/html")


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


def finite_or_none(value: float) -> float | None:
    """A number as JSON has them; None for the others."""
    return float(value) if math.isfinite(value) else None


def readable_document(data: bytes) -> Any:
    """A JSON document in which every number is one that a browser can show; None if too large."""
    if len(data) > _MAX_DOCUMENT:
        return None
    try:
        return json.loads(
            data, parse_int=_parse_integer, parse_float=_parse_decimal, parse_constant=str
        )
    except (ValueError, RecursionError):
        return None  # the page shows the rest


def to_json(value: Any) -> Any:
    """The same of what was decoded already: metadata of commits."""
    match value:
        case bool() | None | str():
            return value
        case int():
            return value if abs(value) < _SAFE else str(value)
        case float():
            return value if math.isfinite(value) else str(value)
        case dict():
            return {str(key): to_json(each) for key, each in value.items()}
        case list() | tuple():
            return [to_json(each) for each in value]
        case _:
            return str(value)


def _parse_integer(text: str) -> int | str:
    return int(text) if len(text) < 16 else text


def _parse_decimal(text: str) -> float | str:
    value = float(text)
    return value if math.isfinite(value) else text


# Parameters of a request. A wrong one raises InvalidInputError.

MAX_PAGE = 1000


@dataclass(frozen=True, slots=True)
class Asked:
    """The parameters of one request."""

    values: Mapping[str, str]

    def text(self, name: str, default: str | None = None) -> str:
        found = self.values.get(name, default)
        if found is None:
            raise InvalidInputError(f"the parameter {name!r} is missing")
        return found

    def number(self, name: str, default: int, *, least: int = 0, most: int = 2**53) -> int:
        found = self.values.get(name)
        if found is None:
            return default
        if not (found.isascii() and found.isdigit() and len(found) <= 16):
            raise InvalidInputError(f"{name}={found!r} is not a whole number")
        return min(max(int(found), least), most)

    def decimal(self, name: str) -> float | None:
        found = self.values.get(name) or None
        try:
            value = None if found is None else float(found)
        except ValueError:
            raise InvalidInputError(f"{name}={found!r} is not a number") from None
        return value if value is None or math.isfinite(value) else None

    def page(self, default: int) -> tuple[int, int]:
        """Returns the start of a page and its greatest length."""
        return self.number("offset", 0), self.number("limit", default, least=1, most=MAX_PAGE)

    def path(self) -> NodePath:
        text = self.values.get("path", "/")
        return ROOT if text in {"", "/"} else NodePath(text)

    def numbers(self, name: str) -> tuple[int, ...] | None:
        """Whole numbers with commas between; none of them for an empty text."""
        found = self.values.get(name)
        if found is None:
            return None
        parts = found.split(",") if found else []
        if not all(part.isascii() and part.isdigit() and len(part) <= 16 for part in parts):
            raise InvalidInputError(f"{name}={found!r} is not a list of whole numbers")
        return tuple(map(int, parts))

    def places(self, name: str, ndim: int) -> tuple[int | None, ...] | None:
        """Parses a position per dimension, or `*` for all of it; None if nothing was given."""
        found = self.values.get(name)
        if not found:
            return None
        parts = found.split(",")
        if len(parts) != ndim:
            raise InvalidInputError(f"{name}={found!r} has {len(parts)} places, expected {ndim}")
        return tuple(None if part == "*" else _parse_position(name, part) for part in parts)


def _parse_position(name: str, part: str) -> int:
    if not (part.isascii() and part.isdigit() and len(part) <= 16):
        raise InvalidInputError(f"{part!r} in {name} is neither a whole number nor *")
    return int(part)
