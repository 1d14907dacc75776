"""A check of a store's conditional writes, by writers that race for keys.

Commits are safe only where it does. A store that ignores conditions passes every test that does
one thing at a time, so writers are let go together:

    problems = check_conditional_writes(storage.store)
    assert not problems, problems
"""

import threading
from concurrent.futures import ThreadPoolExecutor

from frazil.errors import PreconditionFailedError
from frazil.ids import ObjectId
from frazil.objectstore.protocol import Absent, Matches, ObjectStore, Precondition


def check_conditional_writes(
    store: ObjectStore, *, under: str = "frazil-check", writers: int = 8, rounds: int = 10
) -> list[str]:
    """The problems of the store, as texts; none if every race had exactly one winner.

    Writes a few small objects with new names below `under`, and removes them. Takes about as long
    as `2 * rounds` writes of one object by `writers` clients at once. Raises StorageError if the
    store cannot be used at all.
    """
    root = f"{under}/{ObjectId.random()}"
    keys = [f"{root}/{number}" for number in range(rounds)]
    try:
        with ThreadPoolExecutor(writers) as pool:
            trial = _Trial(store, pool, writers)
            problems = [*_check_one_at_a_time(store, f"{root}/alone")]
            problems += [found for key in keys for found in trial.creation(key)]
            problems += [found for key in keys for found in trial.update(key)]
    finally:
        store.delete([f"{root}/alone", *keys])
    return problems


def _check_one_at_a_time(store: ObjectStore, key: str) -> list[str]:
    """The problems that show without a race: cheap, and more precise about what is missing."""
    first = store.put(key, b"first", when=Absent())
    store.put(key, b"second", when=Matches(first))
    problems = list[str]()
    if _put_succeeds(store, key, b"third", Absent()):
        problems.append(f"{key}: an object was created although there was one")
    if _put_succeeds(store, key, b"third", Matches(first)):
        problems.append(f"{key}: an object was replaced although it had changed")
    return problems


class _Trial:
    """Races of the same clients for one key after another."""

    def __init__(self, store: ObjectStore, pool: ThreadPoolExecutor, writers: int) -> None:
        self._store = store
        self._pool = pool
        self._writers = writers

    def creation(self, key: str) -> list[str]:
        return self._race(key, "created", Absent())

    def update(self, key: str) -> list[str]:
        return self._race(key, "replaced", Matches(self._store.get(key).version))

    def _race(self, key: str, done: str, when: Precondition) -> list[str]:
        barrier = threading.Barrier(self._writers)

        def write(writer: int) -> bool:
            barrier.wait()
            return _put_succeeds(self._store, key, _content(done, writer), when)

        winners = [
            writer for writer, won in enumerate(self._pool.map(write, range(self._writers))) if won
        ]
        if len(winners) != 1:
            return [f"{key}: {done} by {len(winners)} of {self._writers} writers at once"]
        if bytes(self._store.get(key).data) != _content(done, winners[0]):
            return [f"{key}: {done} by one writer, but holds what another has written"]
        return []


def _content(done: str, writer: int) -> bytes:
    return f"{done} by writer {writer}".encode()


def _put_succeeds(store: ObjectStore, key: str, data: bytes, when: Precondition) -> bool:
    try:
        store.put(key, data, when=when)
    except PreconditionFailedError:
        return False
    return True
