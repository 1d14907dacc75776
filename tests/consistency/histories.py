"""A history made by processes, and whether it can be explained."""

import multiprocessing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from multiprocessing.context import ForkServerContext
from typing import Any

from tests.consistency import actors
from tests.consistency.checker import Logged, Model, check
from tests.consistency.events import Event, recorded
from tests.consistency.places import Place

PATIENCE_S = 180.0  # beyond the time that was asked for


@dataclass(frozen=True, slots=True)
class Result:
    events: list[Event]
    wrong: list[str]
    codes: list[int | None]

    def count(self, kind: str, *, failed: bool = False) -> int:
        return sum(event.kind == kind and bool(event.error) == failed for event in self.events)


def processes() -> ForkServerContext:
    """A context whose children start in milliseconds, with everything imported."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, "tests.crash.killed"])
    return context


def run(
    place: Place,
    roles: Mapping[str, int],
    seconds: float,
    *,
    engines: Sequence[str] = ("frazil",),
    guests: Mapping[str, int] | None = None,
) -> Result:
    """So many processes of each role, with each engine, for so long; then everything is checked.

    `guests` are further ones, with the reference.
    """
    cast = [(engine, role, many) for engine in engines for role, many in roles.items()]
    cast += [("icechunk", role, many) for role, many in (guests or {}).items()]
    actors.create(place)
    context = processes()
    ready = context.Barrier(sum(many for _, _, many in cast))
    running = [
        context.Process(
            target=actors.run,
            args=(replace(place, engine=engine), role, number, seconds, ready),
            daemon=True,
        )
        for engine, role, many in cast
        for number in range(many)
    ]
    for process in running:
        process.start()
    for process in running:
        process.join(seconds + PATIENCE_S)
        if process.exitcode is None:
            process.kill()
            process.join()
    return examined(place, [process.exitcode for process in running])


def examined(place: Place, codes: list[int | None]) -> Result:
    """What was recorded, and everything that is wrong with it and with the repository."""
    events = recorded(place.folder)
    # Read as it is, whatever the store's bug was.
    straight = Place(place.folder, place.engine, s3=place.s3)
    repo = straight.open()
    log = [_logged(entry.kind) for entry in repo.ops_log()][::-1]
    begun = next(at for at, entry in enumerate(log) if entry.kind == "NewCommit")
    start = Model(tip=log[begun].name, values=(0,) * actors.COUNTERS)
    outcome = check(events, log[begun + 1 :], start)
    wrong = outcome.wrong + _differences(repo, outcome.states)
    wrong += [f"a process ended with {code}" for code in codes if code]
    return Result(events, wrong, codes)


def _differences(repo: Any, states: list[Model]) -> list[str]:
    """Between the last state and what is there."""
    last = states[-1]
    session = repo.readonly_session("main")
    chain = {state.tip: at for at, state in enumerate(states)}
    ancestry = [info.id for info in repo.ancestry(branch="main")]
    places = [chain[each] for each in ancestry if each in chain]
    wrong = {
        f"the tip is {session.snapshot_id}, not {last.tip}": session.snapshot_id != last.tip,
        "values are not those of the last commit": tuple(actors.values_of(session)) != last.values,
        "tags differ": set(repo.list_tags()) != last.tags,
        "branches differ": set(repo.list_branches()) - {"main"} != last.branches,
        "the history is not in order": places != sorted(places, reverse=True),
    }
    if hasattr(repo, "verify"):
        errors = repo.verify().errors
        wrong[f"verify: {errors[:1]}"] = bool(errors)
    return [text for text, is_wrong in wrong.items() if is_wrong]


def _logged(kind: Any) -> Logged:
    name = getattr(kind, "new_snap_id", None) or getattr(kind, "name", "")
    return Logged(type(kind).__name__, str(name))
