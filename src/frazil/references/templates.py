"""Templates and generators of version 1: `{{u}}/f{{i}}.nc`, `{{(i + 1) * 1000}}`, `{{f(c='a')}}`.

Only arithmetic of integers, formatting and calls of templates are understood, which is what the
specification shows; anything else is refused. Values are columns: a generator of a million
references is evaluated once, not a million times.
"""

import ast
import operator as operators
import re
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

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
    """What is wrong with a template; the caller knows where it is."""


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
            return _calculated(ast.Sub(), 0, _numbers(_evaluate(operand, scope, templates)))
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
            return _formatted(text, [_evaluate(each, scope, templates) for each in node.args])
        case _:
            raise TemplateError(f"{ast.unparse(node)} is not understood in a template")


def _apply(operator: ast.operator, left: Value, right: Value) -> Value:
    if isinstance(operator, ast.Mod) and isinstance(left, str):
        _require_format(_PERCENT, left)
        return _elementwise(lambda value: _filled(left.__mod__, value), right)
    if isinstance(operator, ast.Add) and isinstance(left, str) and isinstance(right, str):
        return left + right
    return _calculated(operator, _numbers(left), _numbers(right))


def _calculated(operator: ast.operator, left: Any, right: Any) -> Value:
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


def _formatted(text: str, values: list[Value]) -> Value:
    if len(values) != 1:
        raise TemplateError(f"{text!r}.format takes one value here")
    _require_format(_BRACES, text)
    return _elementwise(lambda value: _filled(text.format, value), values[0])


def _require_format(pattern: re.Pattern[str], text: str) -> None:
    """Short widths only: a format must not fill the memory."""
    if not pattern.fullmatch(text):
        raise TemplateError(f"{text!r} is not a format that is understood")


def _filled(make: Callable[[Any], str], value: int | str) -> str:
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
