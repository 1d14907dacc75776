"""Values that are worth looking at: as text when printed, as HTML in a notebook.

`repr` stays what it is for a dataclass, a form that can be typed in again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from html import escape
from typing import Any

_STYLE = (
    "<style>"
    ".frazil{line-height:1.5;max-width:50em}"
    ".frazil .frazil{margin:.2em 0 .2em 1em;padding-left:.6em;"
    "border-left:2px solid var(--jp-border-color2,#8884)}"
    ".frazil-title{font-weight:600}"
    ".frazil-name,.frazil summary{opacity:.65}"
    ".frazil summary{cursor:pointer}"
    "</style>"
)


@dataclass(frozen=True, slots=True)
class View:
    """What is shown of a value: a title, and fields that may be shown values in turn."""

    title: str
    fields: Sequence[tuple[str, object]]
    absent: str = "None"  # what a field says that is None


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
    yield f"<{view.title}>"
    for name, value in view.fields:
        if (inner := _view_in(value)) is not None:
            yield f"{name}:"
            yield from (f"    {line}" for line in _text_lines(inner))
        else:
            yield f"{name}: {_text(value, view.absent)}"


def _html(view: View) -> str:
    parts = [f'<div class="frazil"><div class="frazil-title">{escape(view.title)}</div>']
    for name, value in view.fields:
        if (inner := _view_in(value)) is not None:
            parts.append(f"<details><summary>{escape(name)}</summary>{_html(inner)}</details>")
        else:
            parts.append(
                f'<div><span class="frazil-name">{escape(name)}:</span>'
                f" {escape(_text(value, view.absent))}</div>"
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
