"""Base classes of values: displayed as text and HTML, and records that check their fields.

Values are displayed as text when printed, as HTML in a notebook; `repr` stays that of a dataclass,
a form that can be typed in again.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from functools import cache
from operator import index
from types import UnionType
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin, get_type_hints

from frazil.dataclass import dataclass
from frazil.lazy import lazy_module

if TYPE_CHECKING:
    import html
else:
    html = lazy_module("html")  # only notebooks need it

_STYLE = (
    "<style>"
    ".frazil{line-height:1.5;max-width:50em}"
    ".frazil .frazil{margin:.2em 0 .2em 1em;padding-left:.6em;"
    "border-left:2px solid var(--jp-border-color2,#8884)}"
    ".frazil-title{font-weight:600}"
    ".frazil-name,.frazil summary{opacity:.65}"
    ".frazil summary{cursor:pointer}"
    ".frazil pre{margin:.2em 0 .2em 1em;white-space:pre}"
    "</style>"
)


@dataclass(frozen=True, slots=True)
class View:
    """The displayed form of a value: a title and fields, which may be displayed values too."""

    title: str
    fields: Sequence[tuple[str, object]]
    absent: str = "None"  # what a field says that is None
    is_open: bool = False  # as a part of another view in a notebook; otherwise folded


class Displayed:
    """A dataclass that shows its fields; others say what to show by `__view__`."""

    __slots__ = ()

    def __view__(self) -> View:
        return fields_of(self)

    def __str__(self) -> str:
        return text_of(self.__view__())

    def _repr_html_(self) -> str:
        return html_of(self.__view__())


def fields_of(record: Any, *, absent: str = "None") -> View:
    """The fields of a dataclass, but for those its `repr` leaves out: they may be secret."""
    shown = [(each.name, getattr(record, each.name)) for each in fields(record) if each.repr]
    return View(f"frazil.{type(record).__name__}", shown, absent)


def text_of(view: View) -> str:
    return "\n".join(_text_lines(view))


def html_of(view: View) -> str:
    return _STYLE + _html(view)


def _text_lines(view: View) -> Iterator[str]:
    if view.title:
        yield f"<{view.title}>"
    for name, value in view.fields:
        if (inner := _view_in(value)) is not None:
            yield f"{name}:"
            yield from (f"    {line}" for line in _text_lines(inner))
        else:
            first, *more = _text(value, view.absent).split("\n")
            if more:
                yield f"{name}:"
                yield from (f"    {line}" for line in (first, *more))
            else:
                yield f"{name}: {first}"


def _html(view: View) -> str:
    parts = ['<div class="frazil">']
    if view.title:
        parts.append(f'<div class="frazil-title">{html.escape(view.title)}</div>')
    for name, value in view.fields:
        if (inner := _view_in(value)) is not None:
            folded = "<details open>" if inner.is_open else "<details>"
            parts.append(f"{folded}<summary>{html.escape(name)}</summary>{_html(inner)}</details>")
        elif isinstance(value, str) and "\n" in value:
            inside = f"<summary>{html.escape(name)}</summary><pre>{html.escape(value)}</pre>"
            parts.append(f"<details open>{inside}</details>")
        else:
            parts.append(
                f'<div><span class="frazil-name">{html.escape(name)}:</span>'
                f" {html.escape(_text(value, view.absent))}</div>"
            )
    return "".join([*parts, "</div>"])


def _view_in(value: object) -> View | None:
    if isinstance(value, Displayed):
        return value.__view__()
    return value if isinstance(value, View) else None


def _text(value: object, absent: str) -> str:
    match value:
        case None:
            return absent
        case str():
            return value
        case datetime():
            return value.isoformat(sep=" ")
        case set() | frozenset():
            return ", ".join(sorted(map(str, value))) or "none"
        case _:
            return str(value)


# -------------------------------------------------------------------------------------------------
# Records whose fields take only what can be stored.
#
# A field with a limit takes whole numbers of a certain size, the others what their annotation says.
# Checked on every assignment, so that a mistake is reported where it is made:
# OverflowError for numbers out of range, ValueError for a forbidden zero, TypeError for the rest.

type Check = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Limit:
    low: int
    high: int
    nonzero: bool = False

    def checked(self, name: str, value: Any) -> int:
        """`value` as an int."""
        number = index(value)  # TypeError if it is not whole
        if not self.low <= number <= self.high:
            raise OverflowError(f"{name} is {number}, not from {self.low} to {self.high}")
        if self.nonzero and not number:
            raise ValueError(f"{name} must not be 0")
        return number


# For `metadata` of a dataclass field.
U8: Mapping[str, Limit] = {"limit": Limit(0, 2**8 - 1)}
U16: Mapping[str, Limit] = {"limit": Limit(0, 2**16 - 1)}
U32: Mapping[str, Limit] = {"limit": Limit(0, 2**32 - 1)}
U64: Mapping[str, Limit] = {"limit": Limit(0, 2**64 - 1)}
I32: Mapping[str, Limit] = {"limit": Limit(-(2**31), 2**31 - 1)}
NONZERO_U16: Mapping[str, Limit] = {"limit": Limit(0, 2**16 - 1, nonzero=True)}
NONZERO_U64: Mapping[str, Limit] = {"limit": Limit(0, 2**64 - 1, nonzero=True)}


def unless_set(default: object, limit: Mapping[str, Limit] | None = None) -> dict[str, object]:
    """`metadata` of a field that says what None means."""
    return {**(limit or {}), "default": default}


def field_value(record: Any, name: str) -> Any:
    """The value of a field, or its default."""
    value = getattr(record, name)
    if value is not None:
        return value
    return record.__dataclass_fields__[name].metadata["default"]


class Record(Displayed):
    """Base of the dataclasses that a configuration is made of."""

    __slots__ = ()

    def __view__(self) -> View:
        record: Any = self
        defaults = {each.name: each.metadata.get("default") for each in fields(record)}
        view = fields_of(self, absent="default")
        shown = [
            (name, _default_view(defaults[name]) if value is None else value)
            for name, value in view.fields
        ]
        return View(view.title, shown, view.absent)

    def __setattr__(self, name: str, value: Any) -> None:
        record: Any = type(self)
        field = record.__dataclass_fields__.get(name)
        if field is None or value is not field.default:  # most are not set, and need no check
            check = _checks(record).get(name)
            value = value if check is None else check(value)
        super().__setattr__(name, value)


def _default_view(default: object) -> object:
    """None if it is not known here: it may depend on the storage."""
    return default if default is None or isinstance(default, Record) else f"{default} (default)"


@cache
def _checks(record: type[Any]) -> dict[str, Check]:
    hints = get_type_hints(record)
    checks: dict[str, Check] = {}
    for each in fields(record):
        if "limit" in each.metadata:
            checks[each.name] = _limit_check(each.name, each.metadata["limit"])
        elif allowed := _classes(hints[each.name]):
            checks[each.name] = _instance(each.name, allowed)
    return checks


def _limit_check(name: str, limit: Limit) -> Check:
    """None means the default."""
    return lambda value: None if value is None else limit.checked(name, value)


def _instance(name: str, allowed: tuple[type, ...]) -> Check:
    def check(value: Any) -> Any:
        if not isinstance(value, allowed):
            names = " or ".join(each.__name__ for each in allowed)
            raise TypeError(f"{name} is {value!r}, expected {names}")
        return value

    return check


def _classes(hint: Any) -> tuple[type, ...]:
    """The classes a value may have; none if the annotation says more than that."""
    options = get_args(hint) if get_origin(hint) in {Union, UnionType} else (hint,)
    options = tuple(get_origin(each) or each for each in options)
    return options if all(isinstance(each, type) for each in options) else ()
