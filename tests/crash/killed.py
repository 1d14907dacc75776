"""A process that is killed at one storage operation, and what it leaves behind.

On a local disk it kills itself, before or after one of its system calls. On a server it is killed
from outside, by a proxy that has its request in hand and then passes it on, or does not.
"""

import multiprocessing
import os
import shutil
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any, Literal, Protocol

import frazil
from frazil import Storage
from frazil.testing.disk import DiskCall, watched_disk
from frazil.testing.fault_proxy import FaultProxy
from frazil.testing.faults import DropRequest, Fault
from tests.crash.operations import OPERATIONS, Operation, State, problems, see
from tests.servers.s3 import S3Server

type Moment = Literal["before", "after"]
MOMENTS: tuple[Moment, ...] = ("before", "after")
CHANGES = {"PUT", "POST", "DELETE", "PATCH"}  # requests that do something
STILL_WAITING_S = 60.0


@dataclass(frozen=True, slots=True)
class Kill:
    """Which call, from 0, and whether it is still done."""

    number: int
    moment: Moment


@dataclass(frozen=True, slots=True)
class Trial:
    """`survived`: there was no such call, so the process came to its end."""

    kill: Kill
    told: int
    survived: bool
    problem: str


class Place(Protocol):
    """Where a repository is: prepared once, put back to that state before each trial."""

    def storage(self) -> Storage: ...

    def restore(self) -> None: ...

    def run(self, name: str, kill: Kill | None) -> tuple[int, int]:
        """The exit code of a process that does the operation, and how many calls were made."""
        ...

    @property
    def report(self) -> Path: ...


def processes() -> ForkServerContext:
    """A context whose children start in milliseconds, with everything imported."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, "frazil.api.repository", "frazil.api.session"])
    return context


class Reports:
    """Steps that were reported, one write each, to a file that outlives the process."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def __call__(self, step: str) -> None:
        os.write(self._file, f"{step}\n".encode())


def _joined(target: Callable[..., None], *arguments: Any) -> int:
    process = processes().Process(target=target, args=arguments, daemon=True)
    process.start()
    return _ended(process)


def _ended(process: multiprocessing.process.BaseProcess) -> int:
    process.join(STILL_WAITING_S)
    if process.exitcode is None:
        process.kill()
        process.join()
        raise AssertionError("a process neither ended nor died")
    return process.exitcode


# On a local disk


@dataclass(frozen=True, slots=True)
class LocalPlace:
    folder: Path

    @property
    def root(self) -> Path:
        return self.folder / "disk"

    @property
    def report(self) -> Path:
        return self.folder / "report"

    def storage(self) -> Storage:
        return frazil.local_filesystem_storage(str(self.root / "repo"))

    def prepare(self, operation: Operation) -> None:
        self.root.mkdir()
        operation.prepare(self.storage())
        self.root.rename(self.folder / "template")

    def restore(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)
        shutil.copytree(self.folder / "template", self.root)
        self.report.unlink(missing_ok=True)

    def run(self, name: str, kill: Kill | None) -> tuple[int, int]:
        calls = self.folder / "calls"
        code = _joined(_run_locally, self, name, kill, calls)
        return code, 0 if code else len(calls.read_text().splitlines())

    def calls(self) -> list[str]:
        """Of the last run that came to its end."""
        return (self.folder / "calls").read_text().splitlines()


def _run_locally(place: LocalPlace, name: str, kill: Kill | None, calls: Path) -> None:
    report = Reports(place.report)
    seen, lock = [-1], threading.Lock()

    def before(_: DiskCall) -> None:
        with lock:
            seen[0] += 1
            if kill == Kill(seen[0], "before"):
                os.kill(os.getpid(), signal.SIGKILL)

    done = [-1]

    def after(_: DiskCall) -> None:
        with lock:
            done[0] += 1
            if kill == Kill(done[0], "after"):
                os.kill(os.getpid(), signal.SIGKILL)

    with watched_disk(place.root, before=before, after=after, fsync=False) as made:
        OPERATIONS[name].act(place.storage(), report)
    calls.write_text("".join(f"{call}\n" for call in made))


# On a server


@dataclass(slots=True)
class Executioner:
    """Kills the process whose request it sees, when it is time; a choice of a fault proxy."""

    prefix: str
    kill: Kill | None
    pid: int = 0
    seen: int = -1
    known: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, method: str, path: str) -> Fault | None:
        with self.lock:
            # Which objects go is in the body of the request, not in its path.
            is_ours = f"/{self.prefix}" in path or path.endswith("?delete")
            if method not in CHANGES or not is_ours:
                return None
            self.seen += 1
            if self.kill is None or self.seen != self.kill.number:
                return None
            self.known.wait(STILL_WAITING_S)
            os.kill(self.pid, signal.SIGKILL)
        return DropRequest() if self.kill.moment == "before" else None


@dataclass(slots=True)
class S3Place:
    server: S3Server
    proxy: FaultProxy
    folder: Path
    prefix: str = ""
    template: dict[str, bytes] = field(default_factory=dict)

    @property
    def report(self) -> Path:
        return self.folder / "report"

    def storage(self) -> Storage:
        return Storage(self.server.store(self.prefix))

    def prepare(self, operation: Operation) -> None:
        self.prefix = self.server.new_prefix()
        operation.prepare(self.storage())
        store = self.storage().store
        self.template = {info.key: bytes(store.get(info.key).data) for info in store.list()}

    def restore(self) -> None:
        self.prefix = self.server.new_prefix()
        store = self.storage().store
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(store.put, self.template, self.template.values()))
        self.report.unlink(missing_ok=True)

    def run(self, name: str, kill: Kill | None) -> tuple[int, int]:
        executioner = Executioner(self.prefix, kill)
        self.proxy.choose = executioner
        arguments = self.server.at(self.proxy.url).arguments(self.prefix)
        process = processes().Process(
            target=_run_on_server, args=(arguments, name, self.report), daemon=True
        )
        process.start()
        executioner.pid = process.pid or 0
        executioner.known.set()
        return _ended(process), executioner.seen + 1


def _run_on_server(arguments: dict[str, Any], name: str, report: Path) -> None:
    OPERATIONS[name].act(frazil.s3_storage(**arguments), Reports(report))


# Everywhere


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """An operation that came to its end: what was seen after each of its steps."""

    states: list[State | None]
    calls: int


def rehearse(place: Place, name: str) -> Rehearsal:
    """Once to see, in this process; once in one of its own to count."""
    operation = OPERATIONS[name]
    place.restore()
    states = [see(place.storage())]
    operation.act(place.storage(), lambda _: states.append(see(place.storage())))
    place.restore()
    code, calls = place.run(name, None)
    assert code == 0
    return Rehearsal(states, calls)


def attempt(place: Place, name: str, rehearsal: Rehearsal, kill: Kill) -> Trial:
    place.restore()
    code, _ = place.run(name, kill)
    if code not in (0, -signal.SIGKILL):
        return Trial(kill, 0, survived=False, problem=f"the process ended with {code}")
    told = len(place.report.read_text().splitlines()) if place.report.exists() else 0
    problem = problems(place.storage(), OPERATIONS[name], rehearsal.states, told)
    return Trial(kill, told, survived=code == 0, problem=problem)
