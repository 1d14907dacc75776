"""The tour of wrong calls: both packages make each of them, in a copy of the same repository."""

from collections.abc import Iterator
from dataclasses import dataclass

import icechunk

import frazil
from scripts.parity import wrong_calls, wrong_settings
from scripts.parity.expressions import evaluate
from scripts.parity.outcome import Outcome, compare, outcome_of
from scripts.parity.place import Template, copy_of, template


@dataclass(frozen=True, slots=True)
class Stop:
    """One call and what it came to."""

    call: str
    ours: Outcome
    theirs: Outcome

    @property
    def difference(self) -> str:
        return compare(self.ours, self.theirs)


def wrong() -> list[str]:
    return [
        call
        for module in (wrong_calls, wrong_settings)
        for table in module.EVERYWHERE
        for call in table
    ]


def make_tour(calls: list[str]) -> Iterator[Stop]:
    with template(icechunk) as made:
        for call in calls:
            ours, theirs = (_outcome(call, made, module) for module in (frazil, icechunk))
            yield Stop(call, ours, theirs)


def _outcome(call: str, made: Template, module: object) -> Outcome:
    with copy_of(made, module) as place:  # type: ignore[arg-type]  # a module
        return outcome_of(evaluate(call, place, made), place.m, place.folder)
