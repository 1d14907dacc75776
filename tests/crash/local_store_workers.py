"""Processes that fight over one local store; run as a script, which prints what came of it.

The script imports frazil once and forks its workers from there: starting eight interpreters
would take longer than the fight. It has no threads, so forking is safe.
"""

import argparse
import hashlib
import json
import multiprocessing
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from frazil.errors import PreconditionFailedError
from frazil.objectstore import ABSENT, LocalStore, Matches

KEY = "deep/down/counter"


class WithoutLock(LocalStore):
    """A planted bug: compares and swaps, but lets everybody do it at the same time."""

    def _locked(self) -> AbstractContextManager[None]:
        return nullcontext()

    def _require_version(self, key: str, old: Matches) -> None:
        super()._require_version(key, old)
        time.sleep(0.002)  # the window in which others get the same answer


class ComparingTooEarly(LocalStore):
    """A planted bug: takes the lock only after it has compared."""

    def _replace(self, key: str, path: str, content: memoryview, old: Matches) -> None:
        self._require_version(key, old)
        temporary = self._write_temporary(path, [content], fsync=False)
        time.sleep(0.002)
        with self._locked():
            Path(temporary).replace(path)


class CreatingByRename(LocalStore):
    """A planted bug: looks whether the name is free, then takes it."""

    def _link(self, temporary: str, path: str) -> None:
        if os.path.lexists(path):
            raise FileExistsError(path)
        time.sleep(0.002)
        Path(temporary).replace(path)


STORES = {
    "real": LocalStore,
    "without-lock": WithoutLock,
    "comparing-too-early": ComparingTooEarly,
    "creating-by-rename": CreatingByRename,
}


def page(number: int) -> bytes:
    """A number in an object of varying length that shows when it is not whole."""
    body = b"%d " % number + b"x" * (number * 37 % 5000)
    return hashlib.sha256(body).hexdigest().encode() + body


def number_in(data: bytes) -> int:
    body = data[64:]
    if hashlib.sha256(body).hexdigest().encode() != data[:64]:
        raise AssertionError(f"a torn object of {len(data)} bytes")
    return int(body.split(b" ")[0])


def increment(store: LocalStore) -> bool:
    found = store.get(KEY)
    try:
        store.put(KEY, page(number_in(bytes(found.data)) + 1), when=Matches(found.version))
    except PreconditionFailedError:
        return False
    return True


def forked(work: Callable[[], None]) -> int:
    """The id of a child process that does the work, and nothing else."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        work()
        code = 0
    finally:
        os._exit(code)


def joined(children: list[int]) -> None:
    codes = [os.waitpid(child, 0)[1] for child in children]
    if any(codes):
        raise AssertionError(f"workers ended with {codes}")


def count(make: Callable[[], LocalStore], *, processes: int, each: int) -> dict[str, int]:
    """Every process increments until it has succeeded `each` times."""
    make().put(KEY, page(0), when=ABSENT)

    def work() -> None:
        store, done = make(), 0
        while done < each:
            done += increment(store)

    joined([forked(work) for _ in range(processes)])
    return {
        "successes": processes * each,
        "counter": number_in(bytes(make().get(KEY).data)),
    }


def storm(make: Callable[[], LocalStore], *, least: int, scratch: Path) -> dict[str, object]:
    """Writers that are killed at random moments, and replaced, until `least` were and wrote."""
    make().put(KEY, page(0), when=ABSENT)
    said = scratch / "acknowledged"
    acknowledged = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def work() -> None:
        store = make()
        while True:
            if increment(store):
                os.write(acknowledged, b".")

    writers = [forked(work) for _ in range(4)]
    reader, kills, looks = make(), 0, 0
    while kills < least or said.stat().st_size < least:
        time.sleep(random.uniform(0, 0.02))
        number_in(bytes(reader.get(KEY).data))
        looks += 1
        victim = writers.pop(random.randrange(len(writers)))
        os.kill(victim, signal.SIGKILL)
        os.waitpid(victim, 0)
        kills += 1
        writers.append(forked(work))
    for victim in writers:
        os.kill(victim, signal.SIGKILL)
        os.waitpid(victim, 0)
        kills += 1
    counter = number_in(bytes(reader.get(KEY).data))
    began = time.monotonic()
    proceeds = increment(make())
    return {
        "acknowledged": said.stat().st_size,
        "kills": kills,
        "looks": looks,
        "counter": counter,
        "proceeds": proceeds,
        "proceeds_after_s": time.monotonic() - began,
        "listed": [info.key for info in reader.list()],
        "young_leftovers_removed": reader.collect_leftovers(3600),
        "leftovers_removed": reader.collect_leftovers(-1),
        "files": sorted(path.name for path in Path(reader.root).rglob("*") if path.is_file()),
    }


def create(
    make: Callable[[], LocalStore], *, processes: int, rounds: int, scratch: Path
) -> dict[str, object]:
    """All processes create the same object at the same moment, round by round."""
    barrier = multiprocessing.get_context("fork").Barrier(processes)

    def work(me: int) -> None:
        store, won = make(), []
        for number in range(rounds):
            barrier.wait()
            try:
                store.put(f"round{number}/object", b"%d" % me * 3000, when=ABSENT)
                won.append(number)
            except PreconditionFailedError:
                pass
        (scratch / f"won{me}").write_text(json.dumps(won))

    joined([forked(lambda me=me: work(me)) for me in range(processes)])  # type: ignore[misc]  # bound now
    won = [json.loads((scratch / f"won{me}").read_text()) for me in range(processes)]
    winners = [[me for me in range(processes) if number in won[me]] for number in range(rounds)]
    contents = [bytes(make().get(f"round{number}/object").data) for number in range(rounds)]
    return {
        "winners": winners,
        "stored": [int(data[:1]) for data in contents],
        "whole": all(data == data[:1] * 3000 for data in contents),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("fight", choices=["count", "storm", "create"])
    parser.add_argument("scratch", type=Path)
    parser.add_argument("--store", choices=STORES, default="real")
    parser.add_argument("--fsync", action="store_true")
    parser.add_argument("--each", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--least", type=int, default=100)
    args = parser.parse_args()

    def make() -> LocalStore:
        return STORES[args.store](args.scratch / "root", fsync=args.fsync)

    result: object
    match args.fight:
        case "count":
            result = count(make, processes=8, each=args.each)
        case "storm":
            result = storm(make, least=args.least, scratch=args.scratch)
        case _:
            result = create(make, processes=8, rounds=args.rounds, scratch=args.scratch)
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main()
