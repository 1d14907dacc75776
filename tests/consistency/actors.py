"""Processes that write, rebase, read, tag, branch, collect and expire, and record it all.

The array `a` has some chunks, each a counter. A writer reads one or two of them, adds one, and
commits: an increment that is lost shows.
"""

import os
import random
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import zarr

from frazil.engine.group.group_commit import StagedCommit
from frazil.engine.group.staging import Staged, StagingArea
from frazil.engine.refs.repo_settings import GROUP_COMMIT
from tests.consistency.events import CANCELLED, Recorder
from tests.consistency.places import Place

COUNTERS = 6
CHUNK = 128  # int64: 1 KiB, longer than an inline chunk
TAGS = 40  # names that are fought for
STARTING_S = 120.0
COARSE = timedelta(milliseconds=50)  # times of files lag behind the clock

type Act = Callable[[Place, Recorder, random.Random], None]


def create(place: Place) -> None:
    module = place.module()
    repo = module.Repository.create(place.storage())
    if place.grouped:
        repo.update_metadata({GROUP_COMMIT: True})
    session = repo.writable_session("main")
    zarr.create_array(
        session.store, name="a", shape=(COUNTERS * CHUNK,), chunks=(CHUNK,), dtype="i8",
        fill_value=0, compressors=None,
    )  # fmt: skip
    session.commit("array")


def values_of(session: Any) -> list[int]:
    array = zarr.open_array(session.store, path="a", mode="r")
    found = np.asarray(array[:]).reshape(COUNTERS, CHUNK)
    if not (found == found[:, :1]).all():
        raise AssertionError("a chunk is of two commits")
    values: list[int] = found[:, 0].tolist()
    return values


class Actor:
    """One process: an open repository and what its turns need."""

    def __init__(self, place: Place, recorder: Recorder, seed: int) -> None:
        self.place = place
        self.recorder = recorder
        self.engine = place.module()
        self.error = self.engine.IcechunkError
        self.repo = place.open()
        self.random = random.Random(seed)
        self.branch = f"of-{recorder.actor}"
        self.tags = list[str]()

    def begin(self) -> int:
        """No session that this process opens from now on is older than what it tells here."""
        path = self.place.folder / f"started-{self.recorder.actor}"
        new = path.with_suffix(".new")
        new.write_text((datetime.now(UTC) - COARSE).isoformat())
        new.replace(path)
        return time.monotonic_ns()

    # Turns

    def write(self, *, rebases: bool = False) -> None:
        began = self.begin()
        session = self.repo.writable_session("main")
        base = session.snapshot_id
        array = zarr.open_array(session.store, path="a", mode="r+")
        wrote = dict[str, int]()
        for counter in self._choose_counters(rebases=rebases):
            part = slice(counter * CHUNK, (counter + 1) * CHUNK)
            value = int(np.asarray(array[part])[0]) + 1
            array[part] = value
            wrote[str(counter)] = value
        facts = {"base": base, "began_ns": began, "wrote": wrote, "rebases": rebases}
        options = {}
        if rebases:
            options = {"rebase_with": self.engine.ConflictDetector(), "rebase_tries": 20}
        start = time.monotonic_ns()
        try:
            made = session.commit(self.recorder.actor, **options)
        except self.engine.ConflictError as error:
            self.recorder.record("commit", start, error=error.kind, **facts)
            time.sleep(self.random.uniform(0, 0.02))
        except KeyboardInterrupt:
            if session.read_only:  # it had been made by then
                self.recorder.record("commit", start, snapshot=session.snapshot_id, **facts)
            else:
                self.recorder.record("commit", start, error=CANCELLED, **facts)
        else:
            self.recorder.record("commit", start, snapshot=str(made), **facts)

    def _choose_counters(self, *, rebases: bool) -> list[int]:
        """Mostly its own, if commits are to be made in groups: those in conflict are not."""
        if self.place.grouped and rebases and self.random.random() < 0.9:
            first = COUNTERS - 2 if "canceller" in self.recorder.actor else 0
            return [first + int(self.recorder.actor[-1])]
        return self.random.sample(range(COUNTERS), self.random.choice([1, 1, 2]))

    def rebase(self) -> None:
        self.write(rebases=True)
        if self.place.engine == "icechunk" and self.place.grouped:
            time.sleep(self.random.uniform(0.2, 0.6))  # it is not in a group, and wins too often

    def cancel(self) -> None:
        """Commits as part of a group, and is interrupted now and then."""
        with interrupting(self.random):
            self.write(rebases=True)

    def read(self) -> None:
        start = self.begin()
        session = self.repo.readonly_session("main")
        self.recorder.record("read", start, snapshot=session.snapshot_id, values=values_of(session))

    def tag(self) -> None:
        if self.tags and self.random.random() < 0.4:
            name = self.random.choice(self.tags)
            self._do("delete_tag", name, "", lambda: self.repo.delete_tag(name))
            return
        name = f"tag-{self.random.randrange(TAGS)}"
        tip = self._tip()
        self._do("create_tag", name, tip, lambda: self.repo.create_tag(name, tip))
        self.tags.append(name)

    def change_branch(self) -> None:
        tip, name = self._tip(), self.branch
        match self.random.choice(["create", "reset", "delete"]):
            case "create":
                self._do("create_branch", name, tip, lambda: self.repo.create_branch(name, tip))
            case "reset":
                self._do("reset_branch", name, tip, lambda: self.repo.reset_branch(name, tip))
            case _:
                self._do("delete_branch", name, "", lambda: self.repo.delete_branch(name))

    def collect(self) -> None:
        self._maintain("collect", self.repo.garbage_collect)

    def expire(self) -> None:
        self._maintain("expire", self.repo.expire_snapshots)

    def _tip(self) -> str:
        self.begin()
        return str(self.repo.lookup_branch("main"))

    def _do(self, kind: Any, name: str, snapshot: str, act: Callable[[], object]) -> None:
        start, error = time.monotonic_ns(), ""
        try:
            act()
        except self.error as caught:
            error = caught.kind
        self.recorder.record(kind, start, name=name, snapshot=snapshot, error=error)
        time.sleep(0.01)

    def _maintain(self, kind: Any, act: Callable[[datetime], object]) -> None:
        started = [*self.place.folder.glob("started-*[!w]")]
        oldest = [_time_in(path) for path in started]
        if oldest:
            when = min(oldest)
            self._do(kind, "", "", lambda: act(when))
        time.sleep(0.1)


@contextmanager
def interrupting(rng: random.Random) -> Iterator[None]:
    """Waiting for a group, and the look at its tickets, raise KeyboardInterrupt at random."""
    look, defaults = StagingArea.list, StagedCommit.__init__.__kwdefaults__ or {}

    def maybe_interrupt(share: float) -> None:
        if rng.random() < share and threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt

    def wait(pause_s: float) -> None:
        time.sleep(pause_s)
        maybe_interrupt(0.3)

    def look_or_not(self: StagingArea) -> Staged:
        maybe_interrupt(0.15)
        return look(self)

    with patch.object(StagingArea, "list", look_or_not), patch.dict(defaults, sleep=wait):
        yield


def _time_in(path: Path) -> datetime:
    return datetime.fromisoformat(path.read_text())


TURNS: dict[str, Callable[[Actor], None]] = {
    "writer": Actor.write,
    "rebaser": Actor.rebase,
    "canceller": Actor.cancel,
    "reader": Actor.read,
    "tagger": Actor.tag,
    "brancher": Actor.change_branch,
    "collector": Actor.collect,
    "expirer": Actor.expire,
}


def run(place: Place, role: str, number: int, seconds: float, ready: Barrier) -> None:
    """Takes turns for so long, from when all are ready."""
    os.environ["ICECHUNK_NO_LOGS"] = "1"  # the reference warns of local directories
    recorder = Recorder(place.folder, f"{place.engine}-{role}{number}")
    actor = Actor(place, recorder, seed=zlib.crc32(recorder.actor.encode()))
    if role not in {"collector", "expirer"}:
        actor.begin()
    ready.wait(STARTING_S)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        TURNS[role](actor)
    # What it has open no longer keeps garbage from being collected.
    (place.folder / f"started-{recorder.actor}").unlink(missing_ok=True)
    recorder.close()
