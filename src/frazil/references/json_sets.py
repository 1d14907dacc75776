"""Reference sets in JSON, version 0 and 1. https://fsspec.github.io/kerchunk/spec.html

version 0   {key: value, ...}
version 1   {"version": 1, "templates": {name: text}, "gen": [...], "refs": {key: value, ...}}

value       "text"                      the bytes themselves
            "base64:..."                the same, for bytes that are not text
            {...}                       the same, as JSON
            [url]                       a whole file
            [url, offset, length]       a part of one
"""

import ast
import json
import operator as operators
import re
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import compress
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from frazil.errors import FormatError
from frazil.flatbuf.columns import StringColumn, text_column
from frazil.flatbuf.strings import Strings
from frazil.references.columns import (
    ARRAY_2,
    CONSOLIDATED_2,
    DOCUMENTS,
    NODE_3,
    ChunkColumns,
    ReferenceSet,
    array_paths,
    grid_of,
    parse_chunk_keys,
    reference_error,
)

# Templates and generators of version 1: `{{u}}/f{{i}}.nc`, `{{(i + 1) * 1000}}`, `{{f(c='a')}}`.
#
# Only arithmetic of integers, formatting and calls of templates are understood, which is what the
# specification shows; anything else is refused. Values are columns: a generator of a million
# references is evaluated once, not a million times.

_HOLE = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_PERCENT = re.compile(r"(?:[^%]|%%)*%0?[0-9]{0,2}[ds](?:[^%]|%%)*")
_BRACES = re.compile(r"[^{}]*\{0?(?::0?[0-9]{0,2}d?)?\}[^{}]*")
_OPERATORS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operators.add,
    ast.Sub: operators.sub,
    ast.Mult: operators.mul,
    ast.FloorDiv: operators.floordiv,
    ast.Mod: operators.mod,
}
# A few bytes of JSON must not fill the memory.
_MAX_ROWS = 20_000_000  # of one generator
_MAX_TEXT = 1 << 16  # characters of one text, which is a key or a URL
_MAX_NUMBER = 1 << 128  # nothing that is counted or addressed is as large

type Column = npt.NDArray[np.object_]  # (n,) of int or str: exact arithmetic
type Value = int | str | Column


class TemplateError(ValueError):
    """An error in a template; the caller adds its location."""


def expand_template(text: str, templates: Mapping[str, str]) -> str:
    """A text without dimensions."""
    value = _render(text, dict(templates), templates)
    return value if isinstance(value, str) else str(value)


def expand_generator(
    generator: Mapping[str, Any], templates: Mapping[str, str]
) -> tuple[list[str], list[str], list[int] | None, list[int] | None]:
    """Keys, URLs, offsets and lengths of all references; no offsets and lengths for whole files."""
    if ("offset" in generator) != ("length" in generator):
        raise TemplateError("offset and length go together, and one is missing")
    names, count = _dimensions(generator.get("dimensions"))
    scope: dict[str, Value] = {**templates, **names}

    def texts(field: str) -> list[str]:
        template = generator.get(field)
        if not isinstance(template, str):
            raise TemplateError(f"{field} is {template!r}, expected text")
        value = _render(template, scope, templates)
        return [value] * count if isinstance(value, str) else [str(each) for each in value]

    def numbers(field: str) -> list[int]:
        if isinstance(generator[field], int):
            return [generator[field]] * count
        try:
            return [int(text) for text in texts(field)]
        except ValueError as error:
            raise TemplateError(f"{field} is not a number: {error}") from error

    if "offset" not in generator:
        return texts("key"), texts("url"), None, None
    return texts("key"), texts("url"), numbers("offset"), numbers("length")


def _dimensions(given: Any) -> tuple[dict[str, Value], int]:
    """A column for each dimension, over all combinations, the last dimension fastest."""
    if not isinstance(given, Mapping) or not given:
        raise TemplateError(f"dimensions is {given!r}, expected an object")
    values = {name: _dimension(name, each) for name, each in given.items()}
    lengths = [len(each) for each in values.values()]
    if prod(lengths) > _MAX_ROWS:
        raise TemplateError(f"{prod(lengths)} references, at most {_MAX_ROWS} are possible")
    columns: dict[str, Value] = {}
    before, after = 1, prod(lengths)
    for name, each in values.items():
        after //= max(len(each), 1)
        column = np.empty(len(each), np.object_)
        column[:] = each
        columns[name] = np.tile(np.repeat(column, after), before)
        before *= len(each)
    return columns, prod(lengths)


def _dimension(name: str, given: Any) -> Sequence[int | str]:
    match given:
        case list() if all(isinstance(each, int | str) for each in given):
            listed: list[int | str] = given
            return listed
        case {"stop": int(stop)}:
            start, step = given.get("start", 0), given.get("step", 1)
            if not isinstance(start, int) or not isinstance(step, int) or not step:
                raise TemplateError(f"dimension {name!r} is {given!r}, which is no range")
            if abs(stop - start) // abs(step) > _MAX_ROWS:
                raise TemplateError(f"dimension {name!r} is {given!r}: more than {_MAX_ROWS}")
            return range(start, stop, step)
        case _:
            raise TemplateError(f"dimension {name!r} is {given!r}, expected a list or a stop")


def _render(text: str, scope: Mapping[str, Value], templates: Mapping[str, str]) -> str | Column:
    """The text with its holes filled; a column if one of them is."""
    parts = _HOLE.split(text)  # text, hole, text, hole, ..., text
    values = [
        _evaluate(_parse(part), scope, templates) if number % 2 else part
        for number, part in enumerate(parts)
    ]
    if not any(isinstance(value, np.ndarray) for value in values):
        text = "".join(map(str, values))
        if len(text) > _MAX_TEXT:
            raise TemplateError(f"{len(text)} characters, at most {_MAX_TEXT} are possible")
        return text
    if sum(map(_longest, values)) > _MAX_TEXT:
        raise TemplateError(f"more than {_MAX_TEXT} characters")
    result: Any = ""
    for value in values:
        result = result + (value if isinstance(value, str) else _as_text(value))
    column: Column = result
    return column


def _longest(value: Value) -> int:
    """Characters that it takes in a text at most; numbers are short."""
    if isinstance(value, np.ndarray):
        return max((len(each) for each in value.tolist() if isinstance(each, str)), default=0)
    return len(value) if isinstance(value, str) else 0


def _parse(hole: str) -> ast.expr:
    if len(hole) > _MAX_TEXT:
        raise TemplateError(f"an expression of {len(hole)} characters")
    try:
        return ast.parse(hole.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise TemplateError(f"{{{{{hole}}}}} is not an expression") from error


def _evaluate(node: ast.expr, scope: Mapping[str, Value], templates: Mapping[str, str]) -> Value:
    match node:
        case ast.Constant(value=int() | str() as value):
            return value
        case ast.Name(id=name) if name in scope:
            return scope[name]
        case ast.Name(id=name):
            raise TemplateError(f"{name!r} is neither a template nor a dimension")
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _calculate(ast.Sub(), 0, _numbers(_evaluate(operand, scope, templates)))
        case ast.BinOp(left=left, op=operator, right=right):
            return _apply(
                operator, _evaluate(left, scope, templates), _evaluate(right, scope, templates)
            )
        case ast.Call(func=ast.Name(id=name), args=[], keywords=keywords) if name in templates:
            given = {
                word.arg: _evaluate(word.value, scope, templates) for word in keywords if word.arg
            }
            return _render(templates[name], given, {})
        case ast.Call(func=ast.Attribute(value=ast.Constant(value=str(text)), attr="format")):
            return _format(text, [_evaluate(each, scope, templates) for each in node.args])
        case _:
            raise TemplateError(f"{ast.unparse(node)} is not understood in a template")


def _apply(operator: ast.operator, left: Value, right: Value) -> Value:
    if isinstance(operator, ast.Mod) and isinstance(left, str):
        _require_format(_PERCENT, left)
        return _elementwise(lambda value: _format_value(left.__mod__, value), right)
    if isinstance(operator, ast.Add) and isinstance(left, str) and isinstance(right, str):
        return left + right
    return _calculate(operator, _numbers(left), _numbers(right))


def _calculate(operator: ast.operator, left: Any, right: Any) -> Value:
    calculate = _OPERATORS.get(type(operator))
    if calculate is None:
        name = type(operator).__name__
        raise TemplateError(f"the operator {name} is not understood in a template")
    try:
        result: Value = calculate(left, right)
    except ZeroDivisionError as error:
        raise TemplateError("division by zero") from error
    if not _is_moderate(result):
        raise TemplateError(f"a number is larger than {_MAX_NUMBER}")
    return result


def _is_moderate(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return not len(value) or bool(value.max() < _MAX_NUMBER and value.min() > -_MAX_NUMBER)
    return bool(-_MAX_NUMBER < value < _MAX_NUMBER)


def _numbers(value: Value) -> Any:
    first: Any = value
    if isinstance(value, np.ndarray):
        if any(isinstance(each, str) for each in value):
            raise TemplateError("text where a number is expected")
        return value
    if isinstance(first, str):
        raise TemplateError(f"{first!r} where a number is expected")
    return first


def _as_text(value: Value) -> Value:
    return _elementwise(str, value)


def _format(text: str, values: list[Value]) -> Value:
    if len(values) != 1:
        raise TemplateError(f"{text!r}.format takes one value here")
    _require_format(_BRACES, text)
    return _elementwise(lambda value: _format_value(text.format, value), values[0])


def _require_format(pattern: re.Pattern[str], text: str) -> None:
    """Short widths only: a format must not fill the memory."""
    if not pattern.fullmatch(text):
        raise TemplateError(f"{text!r} is not a format that is understood")


def _format_value(make: Callable[[Any], str], value: int | str) -> str:
    try:
        return make(value)
    except (TypeError, ValueError) as error:
        raise TemplateError(f"{value!r} cannot be formatted: {error}") from error


def _elementwise(function: Callable[[Any], Any], value: Value) -> Value:
    if not isinstance(value, np.ndarray):
        result: Value = function(value)
        return result
    column = np.empty(len(value), np.object_)
    column[:] = [function(each) for each in value.tolist()]
    return column


_BASE64 = "base64:"
_MAX_REFERENCES = 50_000_000  # of one set, where few bytes make many
_NOT_CHUNKS = DOCUMENTS | {CONSOLIDATED_2}


def decode_json_set(
    where: str, data: bytes, *, templates: Mapping[str, str] | None = None
) -> ReferenceSet:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"not a JSON reference set: {error}", where=where) from error
    return parse_reference_set(where, document, templates=templates)


def parse_reference_set(
    where: str, document: Any, *, templates: Mapping[str, str] | None = None
) -> ReferenceSet:
    """The set, from JSON that is decoded already; `templates` replace those of equal name."""
    if not isinstance(document, Mapping):
        raise FormatError(f"expected an object, found {type(document).__name__}", where=where)
    refs = _references(where, document, templates or {})
    documents = {
        key: _document(where, key, value)
        for key, value in refs.items()
        if key.rpartition("/")[2] in DOCUMENTS
    }
    if not documents:
        documents = _read_consolidated(where, refs)
    if not documents:
        raise FormatError("no metadata of a Zarr group or array in it", where=where)
    return ReferenceSet(where, documents, _chunks(where, refs, documents))


def _references(
    where: str, document: Mapping[str, Any], overrides: Mapping[str, str]
) -> Mapping[str, Any]:
    """Everything under its key, templates filled in and generators expanded."""
    version = document.get("version")
    # In a set of version 0 `version` may be an array; then it is no key itself.
    if version is None or not isinstance(version, int):
        inner = document.get("refs")
        return inner if isinstance(inner, Mapping) and "version" not in document else document
    if version not in {0, 1}:
        raise FormatError(f"version {version} of reference sets is not known", where=where)
    refs, given = document.get("refs", {}), document.get("templates") or {}
    if not isinstance(refs, Mapping) or not isinstance(given, Mapping):
        raise FormatError("refs and templates must be objects", where=where)
    templates = {**given, **overrides}
    if not all(isinstance(text, str) for text in templates.values()):
        raise FormatError("templates must be text", where=where)
    expanded = dict(refs)
    if templates:
        _fill_urls(where, expanded, templates)
    generators = document.get("gen") or []
    if not isinstance(generators, list):
        raise FormatError("gen must be a list", where=where)
    for number, generator in enumerate(generators):
        _generate(where, f"gen[{number}]", generator, templates, expanded)
    return expanded


def _fill_urls(where: str, refs: dict[str, Any], templates: Mapping[str, str]) -> None:
    known: dict[str, str] = {}
    for key, value in refs.items():
        if isinstance(value, list) and value and isinstance(value[0], str) and "{{" in value[0]:
            url = known.get(value[0])
            if url is None:
                try:
                    url = known[value[0]] = expand_template(value[0], templates)
                except TemplateError as error:
                    raise reference_error(where, key, str(error)) from error
            refs[key] = [url, *value[1:]]


def _generate(
    where: str, name: str, generator: Any, templates: Mapping[str, str], refs: dict[str, Any]
) -> None:
    if not isinstance(generator, Mapping):
        raise reference_error(where, name, f"expected an object, found {type(generator).__name__}")
    try:
        keys, urls, offsets, lengths = expand_generator(generator, templates)
    except TemplateError as error:
        raise reference_error(where, name, str(error)) from error
    if offsets is None or lengths is None:
        refs.update(zip(keys, ([url] for url in urls), strict=True))
    else:
        refs.update(zip(keys, map(list, zip(urls, offsets, lengths, strict=True)), strict=True))
    if len(refs) > _MAX_REFERENCES:
        raise reference_error(where, name, f"makes more than {_MAX_REFERENCES} references")


def _document(where: str, key: str, value: Any) -> Mapping[str, Any]:
    if isinstance(value, str | bytes):
        try:
            value = json.loads(inline_bytes(where, key, value))
        except (ValueError, RecursionError) as error:
            raise reference_error(where, key, f"not JSON: {error}") from error
    if not isinstance(value, Mapping):
        raise reference_error(where, key, f"expected an object, found {type(value).__name__}")
    return value


def _read_consolidated(where: str, refs: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Metadata that is only in `.zmetadata`, which is otherwise a copy."""
    if CONSOLIDATED_2 not in refs:
        return {}
    metadata = _document(where, CONSOLIDATED_2, refs[CONSOLIDATED_2]).get("metadata")
    if not isinstance(metadata, Mapping):
        raise reference_error(where, CONSOLIDATED_2, "no object `metadata` in it")
    return {key: _document(where, key, value) for key, value in metadata.items()}


def _chunks(
    where: str, refs: Mapping[str, Any], documents: Mapping[str, Mapping[str, Any]]
) -> dict[str, ChunkColumns]:
    arrays = set(array_paths(documents))
    keys: dict[str, list[str]] = {path: [] for path in arrays}
    for key in refs:
        path, _, name = key.rpartition("/")
        if path in keys and name not in _NOT_CHUNKS:
            keys[path].append(key)
        elif name not in _NOT_CHUNKS:
            keys[_array_above(where, key, arrays)].append(key)
    return {path: _columns(where, path, keys[path], refs, documents) for path in sorted(arrays)}


def _array_above(where: str, key: str, arrays: set[str]) -> str:
    """The array that a chunk belongs to whose indices are separated by slashes."""
    path = key
    while path:
        path = path.rpartition("/")[0]
        if path in arrays:
            return path
    raise reference_error(where, key, "belongs to no array")


def _columns(
    where: str,
    path: str,
    keys: Sequence[str],
    refs: Mapping[str, Any],
    documents: Mapping[str, Mapping[str, Any]],
) -> ChunkColumns:
    prefix = f"{path}/" if path else ""
    named = next((key for name in (ARRAY_2, NODE_3) if (key := prefix + name) in documents), None)
    if named is None:
        bad = next(key for key in documents if key.startswith("/"))
        raise reference_error(where, bad, "a key must not begin with a slash")
    grid = grid_of(where, named, documents[named])
    index = parse_chunk_keys(where, path, [key[len(prefix) :] for key in keys], grid)
    values = [list(value) if type(value) is tuple else value for value in map(refs.get, keys)]
    is_part = np.fromiter((type(value) is list for value in values), bool, len(values))
    parts = [value for value in values if type(value) is list]
    urls, offset, length, whole = _part_columns(where, lambda: compress(keys, is_part), parts)
    inline = [
        inline_bytes(where, key, value)
        for key, value in zip(keys, values, strict=True)
        if type(value) is not list
    ]
    lengths = _spread(length, is_part)
    lengths[~is_part] = list(map(len, inline))
    return ChunkColumns(
        index=index,
        location=StringColumn(_codes(is_part, urls.codes), urls.strings),
        offset=_spread(offset, is_part),
        length=lengths,
        whole=_spread(whole, is_part).astype(np.bool_),
        inline=StringColumn(
            _codes(~is_part, np.arange(len(inline), dtype=np.int64)), Strings.from_list(inline)
        ),
    )


def _part_columns(
    where: str, keys: Callable[[], Iterable[str]], parts: list[list[Any]]
) -> tuple[StringColumn, npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Locations, offsets, lengths, and which are whole files."""
    sizes = np.fromiter(map(len, parts), np.int64, len(parts))
    whole = sizes == 1
    if not (whole | (sizes == 3)).all():
        raise _bad_part(where, keys(), parts)
    complete = parts
    if whole.any():
        complete = [part if len(part) == 3 else [part[0], 0, 1] for part in parts]
    texts_, offsets, lengths = zip(*complete, strict=True) if parts else ((), (), ())
    if not set(map(type, texts_)) <= {str} or not set(map(type, (*offsets, *lengths))) <= {int}:
        raise _bad_part(where, keys(), parts)
    try:
        offset, length = np.array(offsets, np.int64), np.array(lengths, np.int64)
    except OverflowError:
        raise _bad_part(where, keys(), parts) from None
    if parts and (int(offset.min()) < 0 or int(length.min()) <= 0):
        raise _bad_part(where, keys(), parts)
    return text_column(texts_), offset, np.where(whole, 0, length), whole


def _bad_part(where: str, keys: Iterable[str], parts: Sequence[Sequence[Any]]) -> FormatError:
    """The first that is wrong, named."""
    key, part = next(
        (key, part) for key, part in zip(keys, parts, strict=True) if not _is_part(part)
    )
    return reference_error(
        where, key, f"is {list(part)!r}, expected [url] or [url, offset, length]"
    )


def _is_part(part: Sequence[Any]) -> bool:
    match part:
        case [str()]:
            return True
        case [str(), int() as offset, int() as length] if type(offset) is type(length) is int:
            return 0 <= offset < 2**63 and 0 < length < 2**63
        case _:
            return False


def inline_bytes(where: str, key: str, value: Any) -> bytes:
    """Bytes that are in the set itself."""
    match value:
        case bytes():
            data = value if not value.startswith(_BASE64.encode()) else _decode(where, key, value)
        case str() if value.startswith(_BASE64):
            data = _decode(where, key, value.encode())
        case str():
            data = value.encode()
        case Mapping():
            data = json.dumps(value).encode()
        case _:
            raise reference_error(where, key, f"is {value!r}, expected text, an object or a list")
    if not data:
        raise reference_error(where, key, "has no bytes")
    return data


def _decode(where: str, key: str, value: bytes) -> bytes:
    try:
        return b64decode(value[len(_BASE64) :], validate=True)
    except Base64Error as error:
        raise reference_error(where, key, f"is not base64: {error}") from error


def _codes(rows: npt.NDArray[np.bool_], codes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    spread = np.full(len(rows), -1, np.int64)
    spread[rows] = codes
    return spread


def _spread(values: Any, rows: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint64]:
    """The values in these rows, 0 in the others."""
    spread = np.zeros(len(rows), np.uint64)
    spread[rows] = values
    return spread
