"""Where processes of a cluster wait, so that a test can choose the moment at which one dies.

A store that waits is given to a job as any other: with the job it travels to executors.
"""

import os
import time
from collections.abc import Buffer, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import override

from pyspark import TaskContext

from frazil.engine.files.object_keys import CHUNKS, REPO_INFO
from frazil.engine.repository import Repository
from frazil.objectstore.local import LocalStore
from frazil.objectstore.protocol import ALWAYS, Precondition

HELD_S = 300.0  # so long a test may take to make up its mind
POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class Arrival:
    pid: int
    task: str  # stage and partition, the same for each attempt; empty on the driver


def arrival_here() -> str:
    task = TaskContext.get()
    where = "" if task is None else f"{task.stageId()}-{task.partitionId()}"
    return f"{os.getpid()} {where}"


@dataclass(frozen=True, slots=True)
class Gate:
    """Who comes here waits until the gate is open, but for the first `free` ones.

    arrival.<n>   for each of them, in the order in which they came; in it what came
    open          from now on nobody waits
    """

    folder: Path
    free: int = 0

    def pass_through(self) -> None:
        number = self._arrive()
        deadline = time.monotonic() + HELD_S
        while number >= self.free and not (self.folder / "open").exists():
            if time.monotonic() > deadline:
                raise TimeoutError("held for too long")
            time.sleep(POLL_S)

    def open(self) -> None:
        (self.folder / "open").touch()

    def arrivals(self) -> list[Arrival]:
        """Those that came here so far, in that order."""
        found = {int(path.suffix[1:]): path for path in self.folder.glob("arrival.*")}
        parts = [found[number].read_text().split(" ") for number in sorted(found)]
        return [Arrival(int(pid), task) for pid, task in parts]

    def held(self) -> list[Arrival]:
        """Those that had to wait, whether they still do or not."""
        return self.arrivals()[self.free :]

    def _arrive(self) -> int:
        mine = self.folder / f"process-{os.getpid()}-{time.monotonic_ns()}"
        mine.write_text(arrival_here())
        number = 0
        while True:
            try:
                os.link(mine, self.folder / f"arrival.{number}")  # one wins, and it is whole
            except FileExistsError:
                number += 1
            else:
                return number


def make_gate(folder: Path, *, free: int = 0) -> Gate:
    folder.mkdir()
    return Gate(folder, free)


type Held = Callable[[str], bool]  # whether a put of this key, in this process, comes to the gate


def chunks_of_tasks(key: str) -> bool:
    return key.startswith(CHUNKS) and TaskContext.get() is not None


def chunks_of_the_first_task(key: str) -> bool:
    task = TaskContext.get()
    return key.startswith(CHUNKS) and task is not None and task.partitionId() == 0


def commits(key: str) -> bool:
    return key == REPO_INFO


class GatedStore(LocalStore):
    """A folder, some of whose puts go through a gate first."""

    def __init__(self, root: str, gate: Gate, held: Held) -> None:
        super().__init__(root)
        self.gate = gate
        self.held = held

    @override
    def put(self, key: str, data: Buffer, *, when: Precondition = ALWAYS) -> str:
        if self.held(key):
            self.gate.pass_through()
        return super().put(key, data, when=when)

    @override
    def put_pieces(self, key: str, pieces: Iterable[Buffer]) -> None:
        if self.held(key):
            self.gate.pass_through()
        super().put_pieces(key, pieces)

    @override
    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.root, self.gate, self.held)


@dataclass(frozen=True, slots=True)
class GatedFolder:
    """A repository in a folder; can be sent to a driver."""

    path: str
    gate: Gate
    held: Held

    def open(self) -> Repository:
        return Repository.open(GatedStore(self.path, self.gate, self.held))
