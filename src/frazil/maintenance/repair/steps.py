"""What a repair would do: whole files, each replaced by what it should have been."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from frazil.assets.layout import backup_name
from frazil.clock import Clock
from frazil.errors import ObjectNotFoundError, PreconditionFailedError
from frazil.maintenance.verify.listing import DAMAGED
from frazil.maintenance.verify.problems import Problem
from frazil.objectstore.protocol import ABSENT, Blob, Matches, ObjectStore


@dataclass(frozen=True, slots=True)
class RepairStep:
    """The file at `key` gets new content. `kinds` are the problems that this solves."""

    key: str
    kinds: tuple[str, ...]
    text: str
    data: bytes

    def __str__(self) -> str:
        return f"{self.key}: {self.text} ({', '.join(self.kinds)})"


@dataclass(frozen=True, slots=True, eq=False)
class RepairPlan:
    """Steps in the order to take them. `left` are errors and warnings that none of them solves."""

    steps: tuple[RepairStep, ...]
    left: tuple[Problem, ...]

    @property
    def total_bytes(self) -> int:
        return sum(len(step.data) for step in self.steps)


def execute_steps(store: ObjectStore, steps: Sequence[RepairStep], clock: Clock) -> list[str]:
    """Replaces the files; names of the copies of what was there before.

    A file is replaced only if it still is what it was when its copy was made: somebody may have
    done something about it meanwhile. Raises PreconditionFailedError then.
    """
    return [kept for step in steps if (kept := _execute(store, step, clock)) is not None]


def _execute(store: ObjectStore, step: RepairStep, clock: Clock) -> str | None:
    old: Blob | None = None
    with suppress(ObjectNotFoundError):
        old = store.get(step.key)
    if old is None:
        store.put(step.key, step.data, when=ABSENT)
        store.sync()
        return None
    kept = evidence_key(step.key, clock())
    store.put(kept, old.data)
    store.sync()
    try:
        store.put(step.key, step.data, when=Matches(old.version))
    except PreconditionFailedError:
        store.delete([kept])
        raise
    return kept


def evidence_key(key: str, now_us: int) -> str:
    """Where a file is kept that is about to be replaced; no reader looks there."""
    return DAMAGED + backup_name(now_us, of=key.replace("/", "."))
