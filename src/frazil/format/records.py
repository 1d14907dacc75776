"""Records whose fields take only what can be stored.

A field with a limit takes whole numbers of a certain size, the others what their annotation says.
Checked on every assignment, so that a mistake is reported where it is made:
OverflowError for numbers out of range, ValueError for a forbidden zero, TypeError for the rest.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from operator import index
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from frazil.format.display import Displayed, View, fields_of

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
    """For `metadata` of a field: what None means."""
    return {**(limit or {}), "default": default}


def given(record: Any, name: str) -> Any:
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
        check = _checks(record).get(name)
        super().__setattr__(name, value if check is None else check(value))


def _default_view(default: object) -> object:
    """None if it is not known here: it may depend on the storage."""
    return default if default is None or isinstance(default, Record) else f"{default} (default)"


@cache
def _checks(record: type[Any]) -> dict[str, Check]:
    hints = get_type_hints(record)
    checks: dict[str, Check] = {}
    for each in fields(record):
        if "limit" in each.metadata:
            checks[each.name] = _limited(each.name, each.metadata["limit"])
        elif allowed := _classes(hints[each.name]):
            checks[each.name] = _instance(each.name, allowed)
    return checks


def _limited(name: str, limit: Limit) -> Check:
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
