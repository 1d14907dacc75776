"""Steps of a repair: whole files, each replaced by what it should have been."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from frazil.clock import Clock
from frazil.engine.files.entry_file import create_entry, replace_entry
from frazil.engine.files.object_keys import backup_name
from frazil.errors import ObjectNotFoundError, PreconditionFailedError
from frazil.maintenance.verify.problems import Problem
from frazil.maintenance.verify.stored_objects import DAMAGED
from frazil.objectstore.protocol import Blob, ObjectStore


@dataclass(frozen=True, slots=True)
class RepairStep:
    """The file at `key` gets new content. `kinds` are the problems that this solves.

    `replaces` is the version of the file that `data` was computed from, None if it was missing.
    """

    key: str
    kinds: tuple[str, ...]
    text: str
    data: bytes
    replaces: str | None

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
    """Replaces the files; names of the copies of what was there before."""
    return [kept for step in steps if (kept := execute_step(store, step, clock)) is not None]


def execute_step(store: ObjectStore, step: RepairStep, clock: Clock) -> str | None:
    """Replaces a file; the name of the copy of what was there before, if anything was.

    Only if the file still is what the step was computed from: others may have written to it since.
    Raises PreconditionFailedError otherwise.
    """
    old = find_blob(store, step.key)
    if old is None and step.replaces is None:
        create_entry(store, step.key, step.data)
        store.sync()
        return None
    if old is None or step.replaces is None or old.version != step.replaces:
        raise PreconditionFailedError(step.key, "what the repair was planned from")
    kept = evidence_key(step.key, clock())
    replace_entry(store, step.key, old, step.data, backup=kept)
    return kept


def find_blob(store: ObjectStore, key: str) -> Blob | None:
    """The file, None if there is none."""
    with suppress(ObjectNotFoundError):
        return store.get(key)
    return None


def find_version(store: ObjectStore, key: str) -> str | None:
    """Version of a file that is to be replaced, None if there is none."""
    blob = find_blob(store, key)
    return None if blob is None else blob.version


def evidence_key(key: str, now_us: int) -> str:
    """The key under which a file is kept that is about to be replaced; readers ignore it."""
    return DAMAGED + backup_name(now_us, of=key.replace("/", "."))
