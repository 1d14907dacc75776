"""Display and pickling of values: what each package does with the same value."""

import pickle
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import icechunk

import frazil
from scripts.parity import values
from scripts.parity.expressions import evaluate
from scripts.parity.outcome import normalised
from scripts.parity.place import Template, copy_of, template

_NAME = re.compile(r"(\w+)\s*[=:](?!=)")
_PACKAGE = re.compile(r"\b(icechunk|frazil|builtins)(\.[a-z_]+)*\.(?=[A-Z])")
_NO_NAMES = {"tzinfo", "https", "http", "s3", "gs", "file"}
_OPAQUE = re.compile(r"^<[\w.]+ object>$|^\{.*<[\w.]+ object>.*\}$")
_TRACE = "\n\ncontext:"  # of the reference's code, after the message of an error
FORMS: dict[str, Callable[[Any], str]] = {
    "repr": repr,
    "str": str,
    "html": lambda value: value._repr_html_() if hasattr(value, "_repr_html_") else "",
}


@dataclass(frozen=True, slots=True)
class Shown:
    """A value as text in each of the forms, and what became of a pickled copy."""

    forms: dict[str, str]
    pickled: str


@dataclass(frozen=True, slots=True)
class Pair:
    value: str  # the expression
    ours: Shown
    theirs: Shown

    def differences(self) -> Iterator[tuple[str, str]]:
        """Differences by form, in words."""
        for form, theirs in self.theirs.forms.items():
            if problem := compare(form, self.ours.forms[form], theirs):
                yield form, problem
        if self.theirs.pickled == "equal" and self.ours.pickled != "equal":
            yield "pickle", f"{self.ours.pickled} here, {self.theirs.pickled} there"


def compare(form: str, ours: str, theirs: str) -> str:
    """Details that ours does not show; nothing if theirs is the default of an object.

    Layouts differ: the fields that are shown are compared by name, a text without any as it is.
    """
    if _OPAQUE.match(theirs) or not theirs:
        return ""
    if form == "html":
        return "" if ours else "no HTML here"
    wanted, found = (set(_NAME.findall(text)) - _NO_NAMES for text in (theirs, ours))
    if wanted:
        missing = ", ".join(sorted(wanted - found))
        return f"does not show {missing}" if missing else ""
    return "" if _bare(ours) == _bare(theirs) else f"`{ours}` here, `{theirs}` there"


def _bare(text: str) -> str:
    return _PACKAGE.sub("", text).replace('"', "'").strip()


def show(value: Any, m: ModuleType, folder: Path | None = None) -> Shown:
    texts = {name: form(value).partition(_TRACE)[0] for name, form in FORMS.items()}
    forms = {name: normalised(text, m, folder, length=100_000) for name, text in texts.items()}
    return Shown(forms, _pickled(value))


def _pickled(value: Any) -> str:
    try:
        copy = pickle.loads(pickle.dumps(value))  # noqa: S301 -- our own
    except (TypeError, ValueError, pickle.PicklingError) as error:
        return type(error).__name__
    return "equal" if copy == value or repr(copy) == repr(value) else "another"


def all_values() -> list[str]:
    return [each for table in values.EVERYWHERE for each in table]


def show_all(expressions: list[str]) -> Iterator[Pair]:
    with template(icechunk) as made:
        for each in expressions:
            ours, theirs = (_shown(each, made, module) for module in (frazil, icechunk))
            yield Pair(each, ours, theirs)


def _shown(expression: str, made: Template, module: ModuleType) -> Shown:
    with copy_of(made, module) as place:
        return show(evaluate(expression, place, made)(), module, place.folder)
