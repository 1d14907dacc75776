"""Whether what processes did and saw can be explained by doing it one after another.

The order is that of the repository's ops log. Checked is that it is an order of everything that
was reported and of nothing else; that it agrees with the clock (what ended before something else
began comes first); that each step is legal after those before it; and that whoever looked saw the
state at some moment between beginning and end of the look. That is strict serializability, for
sessions that rebase as far as they write what they read.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

from tests.consistency.events import CANCELLED, MUTATIONS, Event

# By the names of updates in the ops log.
LOGGED = {
    "commit": "NewCommit",
    "create_tag": "TagCreated",
    "delete_tag": "TagDeleted",
    "create_branch": "BranchCreated",
    "reset_branch": "BranchReset",
    "delete_branch": "BranchDeleted",
}


@dataclass(frozen=True, slots=True)
class Logged:
    """An entry of the ops log: the name of its kind, and the ref or the snapshot it names."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Model:
    """A repository after some steps."""

    tip: str
    values: tuple[int, ...]
    tags: frozenset[str] = frozenset()
    used_tags: frozenset[str] = frozenset()  # deleted ones included
    branches: frozenset[str] = frozenset()


@dataclass(slots=True)
class Outcome:
    """States after each step, the first one included, and everything that is wrong."""

    states: list[Model]
    wrong: list[str] = field(default_factory=list)
    steps: list[Event] = field(default_factory=list)


def check(events: Sequence[Event], log: Sequence[Logged], start: Model) -> Outcome:
    """`log` is the oldest entry first, from after `start`."""
    outcome = Outcome([start])
    outcome.steps = list(_in_order(events, log, outcome.wrong))
    _require_time_order(outcome)
    for step in outcome.steps:
        outcome.states.append(_applied(outcome.states[-1], step, outcome.wrong))
    looks = _Looks(outcome)
    for event in events:
        outcome.wrong.extend(looks.problems(event))
    return outcome


def _in_order(events: Iterable[Event], log: Iterable[Logged], wrong: list[str]) -> Iterator[Event]:
    """Reported changes in the order of the log."""
    reported = defaultdict[Logged, list[Event]](list)
    for event in events:
        if event.kind in MUTATIONS and not event.error:
            name = event.snapshot if event.kind == "commit" else event.name
            reported[Logged(LOGGED[event.kind], name)].append(event)
    for entry in log:
        if entry.kind not in LOGGED.values():
            continue
        if not reported[entry]:
            wrong.append(f"nobody reported {entry.kind} {entry.name}")
            continue
        yield reported[entry].pop(0)  # of one name by one process, or once only: in their order
    for entry, left in reported.items():
        wrong.extend(f"lost: {entry.kind} {entry.name} by {event.actor}" for event in left)


def _require_time_order(outcome: Outcome) -> None:
    ends = [step.end_ns for step in outcome.steps]
    earliest_after = [*accumulate(reversed(ends), min)][::-1]
    for step, end_ns in zip(outcome.steps, earliest_after, strict=True):
        if end_ns < step.start_ns:
            outcome.wrong.append(f"{step.kind} {step.name}{step.snapshot} is before what preceded")


def _applied(state: Model, step: Event, wrong: list[str]) -> Model:
    match step.kind:
        case "commit":
            return _committed(state, step, wrong)
        case "create_tag":
            if step.name in state.used_tags:
                wrong.append(f"tag {step.name} was created twice")
            return replace(
                state, tags=state.tags | {step.name}, used_tags=state.used_tags | {step.name}
            )
        case "delete_tag":
            if step.name not in state.tags:
                wrong.append(f"tag {step.name} was deleted and was not there")
            return replace(state, tags=state.tags - {step.name})
        case "create_branch" if step.name in state.branches:
            wrong.append(f"branch {step.name} was created twice")
        case "reset_branch" | "delete_branch" if step.name not in state.branches:
            wrong.append(f"{step.kind} of {step.name}, which was not there")
        case _:
            pass
    left = state.branches - {step.name}
    return replace(state, branches=left if step.kind == "delete_branch" else left | {step.name})


def _committed(state: Model, step: Event, wrong: list[str]) -> Model:
    if not step.rebases and step.base != state.tip:
        wrong.append(f"{step.actor} committed to {step.base} when {state.tip} was the tip")
    values = list(state.values)
    for counter, value in step.wrote.items():
        if value != values[int(counter)] + 1:
            wrong.append(f"{step.actor} made {value} of {values[int(counter)]}: an update is lost")
        values[int(counter)] = value
    return replace(state, tip=step.snapshot, values=tuple(values))


class _Looks:
    """What could be seen when."""

    def __init__(self, outcome: Outcome) -> None:
        self._states = outcome.states
        steps = outcome.steps
        # State i is that after step i - 1: surely there once a step at or after it has ended, and
        # surely not there before its step has begun.
        self._latest_end = [*accumulate((step.end_ns for step in reversed(steps)), min)][::-1]
        self._earliest_start = [*accumulate((step.start_ns for step in steps), max)]

    def _between(self, start_ns: int, end_ns: int) -> list[Model]:
        # Steps that all have ended before the look began: the last of them is the first state.
        first = bisect_left(self._latest_end, start_ns)
        last = bisect_right(self._earliest_start, end_ns)
        return self._states[first : max(first, last) + 1]

    def problems(self, event: Event) -> Iterator[str]:
        possible = self._between(event.start_ns, event.end_ns)
        if event.kind == "read":
            yield from self._read(event, possible)
        elif event.kind == "commit":
            at_first = {state.tip for state in self._between(event.began_ns, event.start_ns)}
            if event.base not in at_first:
                yield f"{event.actor} began from {event.base}, which was not the tip then"
            is_refused = event.error not in {"", CANCELLED}
            if is_refused and {state.tip for state in possible} == {event.base}:
                yield f"{event.actor} was refused, though nobody had committed: {event.error}"
        elif event.error:
            yield from _unjustified(event, possible)

    def _read(self, event: Event, possible: list[Model]) -> Iterator[str]:
        seen = [state for state in possible if state.tip == event.snapshot]
        if not seen:
            yield f"{event.actor} saw {event.snapshot}, which was not the tip at that time"
        elif tuple(event.values) != seen[0].values:
            yield f"{event.actor} read {event.values} of {event.snapshot}, not {seen[0].values}"


def _unjustified(event: Event, possible: list[Model]) -> Iterator[str]:
    """A refusal that no state explains."""
    match event.error:
        case "tag-already-exists":
            explained = any(event.name in state.used_tags for state in possible)
        case "tag-previously-deleted":
            explained = any(event.name in state.used_tags - state.tags for state in possible)
        case "branch-already-exists":
            explained = any(event.name in state.branches for state in possible)
        case "tag-not-found" | "branch-not-found" | "ref-not-found":
            explained = any(event.name not in state.tags | state.branches for state in possible)
        case "snapshot-not-found":  # it has expired meanwhile
            explained = event.kind in ("create_tag", "create_branch", "reset_branch")
        case _:
            explained = False
    if not explained:
        yield f"{event.actor}: {event.kind} {event.name} failed without a reason: {event.error}"
