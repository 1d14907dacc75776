"""What is left of a local repository if the power fails at some moment of an operation."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from frazil import Storage
from frazil.objectstore import LocalStore
from frazil.testing.disk import DiskCall, watched_disk
from frazil.testing.forgetful_disk import DiskImage, ForgetfulDisk
from tests.crash.operations import OPERATIONS, State, problems, see

type Make = Callable[[Path], LocalStore]


@dataclass(frozen=True, slots=True)
class Left:
    """What a failure leaves after so many calls, of which so many steps were reported."""

    calls: int
    told: int
    image: DiskImage


def durable(path: Path) -> LocalStore:
    return LocalStore(path)


def failures(
    name: str, folder: Path, make: Make = durable, *, chances: int = 1
) -> tuple[list[State | None], list[Left]]:
    """States after each step, and every different thing that a failure may leave.

    At each moment the worst that may be left, and `chances` others.
    """
    root = folder / "disk"
    root.mkdir()
    operation = OPERATIONS[name]
    operation.prepare(Storage(LocalStore(root / "repo")))
    disk = ForgetfulDisk.of(root)
    states = [see(Storage(make(root / "repo")))]
    steps, left, known = list[str](), list[Left](), set[int]()
    calls = [0]

    def look(call: DiskCall) -> None:
        disk.apply(call)
        calls[0] += 1
        dice = [random.Random(1000 * calls[0] + chance) for chance in range(chances)]
        for chance in (None, *dice):
            image = disk.image(chance)
            mark = hash((len(steps), frozenset(image.files.items())))
            if mark not in known:
                known.add(mark)
                left.append(Left(calls[0], len(steps), image))

    def report(step: str) -> None:
        steps.append(step)
        states.append(see(Storage(make(root / "repo"))))

    with watched_disk(root, after=look, fsync=False, keep_data=True):
        operation.act(Storage(make(root / "repo")), report)
    left.append(Left(calls[0], len(steps), disk.image()))
    return states, left


def losses(name: str, states: list[State | None], left: list[Left], folder: Path) -> Iterator[str]:
    """What is wrong with a repository after each of these failures."""
    for number, each in enumerate(left):
        root = folder / f"after{number}"
        root.mkdir(parents=True)
        each.image.write_to(root)
        storage = Storage(LocalStore(root / "repo", fsync=False))
        problem = problems(storage, OPERATIONS[name], states, each.told)
        if problem:
            yield f"after {each.calls} calls: {problem}"
