"""Differences between the names of frazil and of icechunk, one by one."""

import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from scripts.parity.surface import (
    Offer,
    Parameter,
    exported,
    find_module,
    format_call,
    members,
    offer_of,
)

NOTES = Path(__file__).parents[1] / "parity_notes.toml"


@dataclass(frozen=True, slots=True)
class Difference:
    """`name` is what a note refers to: `Class.method`, or `Class.method(parameter)`."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Row:
    """One name of the reference, and what became of it. Without differences it is the same."""

    name: str
    shown: str
    differences: tuple[Difference, ...] = ()


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Note:
    """Reason why names are missing or differ; `names` may contain `*`."""

    names: tuple[str, ...]
    why: str

    def is_about(self, name: str) -> bool:
        return any(_matches(name, pattern) for pattern in self.names)


def _matches(name: str, pattern: str) -> bool:
    """Only `*` is special: expressions are full of brackets and question marks."""
    parts = map(re.escape, pattern.split("*"))
    return re.fullmatch(".*".join(parts), name, re.DOTALL) is not None


def fetch_notes(path: Path = NOTES, *, about: str = "note") -> list[Note]:
    """About names ("note") or about behaviour."""
    tables = tomllib.loads(path.read_text())[about]
    return [Note(tuple(table["names"]), table["why"]) for table in tables]


def find_note(name: str, notes: Sequence[Note]) -> Note | None:
    """The first that is about it."""
    return next((note for note in notes if note.is_about(name)), None)


def compare(name: str, ours: Offer | None, theirs: Offer) -> list[Difference]:
    if ours is None:
        return [Difference(name, "missing")]
    if ours.kind != theirs.kind:
        return [Difference(name, f"is {_article(ours.kind)} here, {_article(theirs.kind)} there")]
    found = []
    if ours.value != theirs.value:
        found.append(Difference(name, f"is {ours.value} here, {theirs.value} there"))
    if ours.bases != theirs.bases:
        found.append(Difference(name, f"is {', '.join(ours.bases)} here"))
    if ours.awaited != theirs.awaited:
        found.append(Difference(name, "is awaited " + ("here" if ours.awaited else "there")))
    if theirs.parameters is not None:
        if ours.parameters is None:
            found.append(Difference(name, "cannot be called"))
        else:
            found += compare_parameters(name, ours.parameters, theirs.parameters)
    return found


def _article(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"


def compare_parameters(
    name: str, ours: Sequence[Parameter], theirs: Sequence[Parameter]
) -> list[Difference]:
    theirs = _named_as(ours, theirs)
    here, there = ({one.name: one for one in many} for many in (ours, theirs))
    texts = {
        each: _compare_parameter(here.get(each), there.get(each)) for each in {**there, **here}
    }
    found = [
        Difference(f"{name}({each})", f"`{each}` {text}") for each, text in texts.items() if text
    ]
    common = [each for each in there if each in here and there[each].by_position]
    if common != [each for each in here if each in common]:
        found.append(Difference(name, f"takes them in the order {', '.join(here)}"))
    return found


def _named_as(ours: Sequence[Parameter], theirs: Sequence[Parameter]) -> list[Parameter]:
    """`_0`, `_1`: the reference has no names for the parts of a variant, only places."""
    return [
        replace(one, name=ours[place].name)
        if one.name == f"_{place}" and place < len(ours)
        else one
        for place, one in enumerate(theirs)
    ]


def _compare_parameter(ours: Parameter | None, theirs: Parameter | None) -> str:
    if ours is None:
        return "missing"
    if theirs is None:
        return "only here"
    if ours.by_position != theirs.by_position:
        return "only by name" if theirs.by_position else "also by position"
    if ours.default != theirs.default:
        return f"is {_default(ours)} here, {_default(theirs)} there"
    return ""


def _default(parameter: Parameter) -> str:
    return "required" if parameter.default is None else f"`{parameter.default}`"


# The sections


def sections(ours: ModuleType, theirs: ModuleType, submodules: Sequence[str]) -> list[Section]:
    """Names of the package, then each class, then each submodule."""
    top = [name for name in exported(theirs) if name != "__version__"]
    classes = [name for name in top if isinstance(getattr(theirs, name), type)]
    others = [name for name in top if name not in classes]
    found = [Section("Functions and types", tuple(row(ours, theirs, name) for name in others))]
    found += [class_section(ours, theirs, name) for name in classes]
    found += [module_section(ours, theirs, name, top) for name in submodules]
    return found


def row(ours: Any, theirs: Any, name: str, prefix: str = "") -> Row:
    """Drops names that are missing with their class or module, which is explained."""
    qualified = prefix + name
    there = offer_of(theirs, name, qualified)
    if there is None:
        raise ValueError(f"the reference lists {qualified}, and has it not")
    if ours is None:
        return Row(qualified, _shown(name, there), (Difference(prefix.rstrip("."), "missing"),))
    here = offer_of(ours, name, qualified)
    return Row(qualified, _shown(name, there), tuple(compare(qualified, here, there)))


def _shown(name: str, offer: Offer) -> str:
    if offer.value:
        return f"{name} = {offer.value}"
    if offer.parameters is None:
        return name
    return ("await " if offer.awaited else "") + format_call(name, offer.parameters)


def class_section(ours: Any, theirs: Any, name: str, prefix: str = "") -> Section:
    return Section(f"{prefix}{name}", tuple(_class_rows(ours, theirs, name, prefix)))


def _class_rows(ours: Any, theirs: Any, name: str, prefix: str) -> Iterator[Row]:
    """The class itself, its members, and the members of classes inside it."""
    yield row(ours, theirs, name, prefix)
    there, here = getattr(theirs, name), getattr(ours, name, None)
    for member in members(there):
        inner = getattr(there, member)
        if isinstance(inner, type) and issubclass(inner, there):  # a variant repeats its base
            yield row(here, there, member, f"{prefix}{name}.")
        elif isinstance(inner, type):
            yield from _class_rows(here, there, member, f"{prefix}{name}.")
        else:
            yield row(here, there, member, f"{prefix}{name}.")


def module_section(ours: ModuleType, theirs: ModuleType, name: str, top: Sequence[str]) -> Section:
    """Names of a submodule. A class of the package is compared there, not again here."""
    there = find_module(f"{theirs.__name__}.{name}")
    here = find_module(f"{ours.__name__}.{name}")
    if there is None:
        raise ValueError(f"the reference has no module {name}")
    missing = () if here is not None else (Difference(name, "missing"),)
    rows = [Row(name, f"import {theirs.__name__}.{name}", missing)]
    for each in exported(there):
        qualified = f"{name}.{each}"
        if each in top:
            owner = name if here is None else qualified
            absent = (Difference(owner, "missing"),) if not hasattr(here, each) else ()
            rows.append(Row(qualified, each, absent))
        elif isinstance(getattr(there, each), type):
            rows += class_section(here, there, each, f"{name}.").rows
        else:
            rows.append(row(here, there, each, f"{name}."))
    return Section(f"Module {name}", tuple(rows))


def only_ours(ours: ModuleType, theirs: ModuleType) -> list[str]:
    """Public names that the reference has not."""
    found = [name for name in exported(ours) if not hasattr(theirs, name)]
    for name in exported(ours):
        cls, namesake = getattr(ours, name), getattr(theirs, name, None)
        if isinstance(cls, type) and isinstance(namesake, type):
            found += [f"{name}.{m}" for m in members(cls) if not hasattr(namesake, m)]
    return sorted(found)
