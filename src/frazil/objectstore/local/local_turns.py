"""Turns: writers of one directory, in any number of processes, that go in the order of arrival.

A ticket is a file in the directory, with the time in its name, that its writer holds a lock on from
the moment it queues until it is done. The writer with the oldest ticket has its turn. The kernel
drops the lock of a process that dies, and the next writer removes its ticket.

Turns are advice: what may be written is decided by compare-and-swap alone. So a writer that cannot
queue goes ahead, and one that does not move (a stopped process, a commit of many seconds) holds
others up for `patience_s` and no longer: its ticket is removed, and it takes its old place again if
it still needs one.

As with a re-entrant lock, what a writer does in its turn is part of it: a commit that rebases has
its turn when it changes the entry point, which is a thing of turns by itself.
"""

# ruff: noqa: PTH108, PTH116, PTH208 - system calls by path string: pathlib costs more than the calls

import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import FileIO

from frazil.objectstore.keys import TICKET_STEM, ticket_name

_PATIENCE_S = 5.0
_SHORTEST_S, _LONGEST_S = 0.0003, 0.05  # between two looks
_OPEN = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW


class _Thread(threading.local):
    """Directories in whose queues the thread may have a place, and how long its last turns took."""

    def __init__(self) -> None:
        self.turns: dict[str, Turn] = {}
        self.turn_s = 0.0


_thread = _Thread()


@contextmanager
def taking_turns(directory: str | None) -> Iterator["Turn | None"]:
    """The turn of the thread, which ends with the outermost context.

    None without a directory: other stores have no queue.
    """
    if directory is None:
        yield None
    elif (outer := _thread.turns.get(directory)) is not None:
        yield outer
    else:
        turn = _thread.turns[directory] = Turn(directory)
        try:
            yield turn
        finally:
            del _thread.turns[directory]
            turn.leave()


class Turn:
    """A place in the queue of `directory`, from the first `wait` until `leave`."""

    def __init__(
        self,
        directory: str,
        *,
        patience_s: float = _PATIENCE_S,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._directory = directory
        self._patience_s = patience_s
        self._sleep = sleep
        self._name = ""
        self._file: FileIO | None = None
        self._is_begun = False
        self._began_s = 0.0  # when a turn began that was waited for; 0 if none has

    def begin(self) -> bool:
        """Waits if another writer waits or has its turn; True if so. Only the first call does."""
        if self._is_begun:
            return False
        self._is_begun = True
        try:
            is_needed = bool(self._tickets())
        except OSError:
            return False
        if is_needed:
            self.wait()
        return is_needed

    def wait(self) -> None:
        """Returns when it is this writer's turn, or when waiting makes no sense."""
        try:
            self._join()
            self._wait()
            self._began_s = time.monotonic()
        except OSError:  # no permission, a full disk: others are not held up by it
            self.leave()

    def _wait(self) -> None:
        first, since, turn_s = "", time.monotonic(), _thread.turn_s
        while ahead := [name for name in self._tickets() if name < self._name]:
            if self._is_abandoned(ahead[0]):
                continue
            now = time.monotonic()
            if ahead[0] != first:
                first, since = ahead[0], now
            elif now - since > self._patience_s:
                self._remove(first)
                continue
            # A look costs as much as a small part of a commit; the next in line looks often.
            pause_s = max(turn_s * (len(ahead) - 1) / 2, turn_s / 8, (now - since) / 8)
            self._sleep(min(max(pause_s, _SHORTEST_S), _LONGEST_S))

    def _tickets(self) -> list[str]:
        """Names of all tickets, the oldest first."""
        return sorted(name for name in os.listdir(self._directory) if name.startswith(TICKET_STEM))

    def _join(self) -> None:
        self._name = self._name or ticket_name(time.time_ns())
        path = f"{self._directory}/{self._name}"
        while self._file is None or not _is_at(path, self._file):
            self._unlock()
            file = FileIO(path, opener=lambda path, _: os.open(path, _OPEN | os.O_CREAT, 0o666))
            fcntl.flock(file, fcntl.LOCK_EX)  # at most for the moment of another's look
            self._file = file  # unless it was removed as abandoned before it was locked

    def _is_abandoned(self, name: str) -> bool:
        """True if the writer of the ticket is gone; then so is the ticket."""
        path = f"{self._directory}/{name}"
        try:
            with FileIO(path, opener=lambda path, _: os.open(path, _OPEN)) as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                self._remove(name)
        except BlockingIOError:
            return False
        except FileNotFoundError:
            return True
        except PermissionError:  # of another user, with a strict umask: only patience tells
            return False
        return True

    def _remove(self, name: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(f"{self._directory}/{name}")

    def leave(self) -> None:
        """Lets the next one go."""
        if self._began_s:
            _thread.turn_s = (_thread.turn_s + time.monotonic() - self._began_s) / 2
            self._began_s = 0.0
        if self._file is not None:
            with suppress(OSError):
                self._remove(self._name)
            self._unlock()

    def _unlock(self) -> None:
        """Not left to close: a child forked meanwhile has a copy of the descriptor."""
        file, self._file = self._file, None
        if file is not None:
            with file:
                fcntl.flock(file, fcntl.LOCK_UN)


def _is_at(path: str, file: FileIO) -> bool:
    try:
        return os.path.samestat(os.stat(path, follow_symlinks=False), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False
