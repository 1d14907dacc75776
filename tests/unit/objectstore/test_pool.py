"""Pools that are used by their own work, in part, or beside other work."""

import subprocess
import sys
from functools import partial
from pathlib import Path
from threading import Barrier, Event, Lock, Thread, get_ident
from threading import enumerate as enumerate_threads
from time import sleep

import pytest

import frazil
from frazil.objectstore.pool import Pool


def test_work_that_shares_out_work_waits_for_nobody() -> None:
    pool = Pool(2)

    def outer(number: int) -> int:
        return sum(pool.map(lambda each: each * number, [1, 2, 3])) + pool.beside(
            lambda: None, lambda: number
        )

    assert pool.map(outer, [1, 2, 3, 4]) == [7, 14, 21, 28]


def test_no_more_than_so_many_at_a_time() -> None:
    pool, lock = Pool(8), Lock()
    running: list[int] = [0, 0]  # now, and at most

    def work(_: int) -> None:
        with lock:
            running[0] += 1
            running[1] = max(running)
        sleep(0.01)
        with lock:
            running[0] -= 1

    pool.map(work, range(12), at_most=3)

    assert running[1] <= 3


def test_threads_take_the_next_item_when_they_are_free() -> None:
    first_is_done = Event()
    done: list[int] = []

    def work(number: int) -> int:
        if number == 0:
            assert first_is_done.wait(10)  # until the others are done, by the other thread
        else:
            done.append(number)
            if len(done) == 7:
                first_is_done.set()
        return number

    assert Pool(2).map(work, range(8)) == list(range(8))
    assert done == list(range(1, 8))


def test_after_a_failure_no_more_is_begun_and_the_first_is_raised() -> None:
    together, begun = Barrier(2), []

    def fail(number: int) -> None:
        begun.append(number)
        together.wait(10)
        raise ValueError(f"item {number}")

    with pytest.raises(ValueError, match="item 0"):
        Pool(2).map(fail, range(100))

    assert sorted(begun) == [0, 1]


def test_a_pool_whose_threads_are_busy_is_not_waited_for() -> None:
    pool, release = Pool(2), Event()
    busy = pool.start(lambda: release.wait(10))
    try:
        assert pool.map(str, range(5)) == list("01234")
    finally:
        release.set()
    assert busy()


def test_what_was_started_is_done_by_who_waits_for_it_if_all_threads_are_busy() -> None:
    pool, release = Pool(1), Event()
    busy = pool.start(lambda: release.wait(10))
    try:
        assert pool.start(get_ident)() == get_ident()
        with pytest.raises(ValueError, match="started"):
            pool.start(partial(int, "started"))()
    finally:
        release.set()
    assert busy()


def test_threads_are_used_again_and_end_with_their_pool() -> None:
    pool, before = Pool(3), set(enumerate_threads())
    for _ in range(50):
        pool.map(str, range(9))
        pool.start(lambda: None)()
    own = [thread for thread in enumerate_threads() if thread not in before]
    assert 1 <= len(own) <= 3
    del pool
    for thread in own:
        thread.join(60)
        assert not thread.is_alive()


def test_a_forked_process_starts_threads_of_its_own() -> None:
    code = """
import os, sys
from threading import get_ident
from frazil.objectstore.pool import Pool
pool = Pool(2)
pool.map(str, range(9))
process = os.fork()
assert pool.map(str, range(9)) == list("012345678")
assert pool.start(lambda: 7)() == 7
if process:
    assert os.waitpid(process, 0)[1] == 0
sys.stdout.write("done\\n")
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout == "done\ndone\n"


def test_python_ends_when_work_that_was_started_is_done() -> None:
    code = """
import time
from frazil.objectstore.pool import Pool
pool = Pool(2)
pool.start(lambda: (time.sleep(0.5), print("done")))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout == "done\n"


def test_where_no_thread_can_be_started_the_caller_works(monkeypatch: pytest.MonkeyPatch) -> None:
    """As at the end of a process, or at a limit of the system."""

    def refuse(_: Thread) -> None:
        raise RuntimeError("can't start new thread")

    pool = Pool(3)
    with monkeypatch.context() as limited:
        limited.setattr(Thread, "start", refuse)
        assert pool.map(lambda _: get_ident(), range(4)) == [get_ident()] * 4
        assert pool.start(get_ident)() == get_ident()
        assert pool.beside(lambda: None, get_ident) == get_ident()
    pool.start(lambda: None)()


def test_a_commit_when_the_process_ends_is_durable(tmp_path: Path) -> None:
    """No thread can be started then; what was written is synced nevertheless."""
    code = f"""
import atexit
import zarr
import frazil
repo = frazil.Repository.create(frazil.local_filesystem_storage({str(tmp_path)!r}))
session = repo.writable_session("main")
zarr.create_array(session.store, name="a", shape=(1 << 19,), chunks=(1 << 18,), dtype="i8",
                  compressors=None)[:] = 7
atexit.register(lambda: print(session.commit("at the end")))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    repo = frazil.Repository.open(frazil.local_filesystem_storage(str(tmp_path)))
    assert repo.lookup_branch("main") == done.stdout.strip()


def test_what_goes_on_beside_is_done_before_anything_is_raised() -> None:
    done: list[str] = []

    def fail() -> None:
        raise ValueError("at work")

    with pytest.raises(ValueError, match="at work"):
        Pool(2).beside(lambda: done.append("aside"), fail)
    with pytest.raises(ValueError, match="at work"):
        Pool(2).beside(fail, lambda: done.append("work"))

    assert done == ["aside", "work"]


def test_work_that_is_quick_is_done_by_who_asks() -> None:
    pool = Pool(4)
    where = pool.map_quickly(lambda _: get_ident(), range(50))
    assert where[0] == get_ident()  # the others too, unless something made one of them wait


def test_work_that_takes_its_time_is_shared_out_after_the_first() -> None:
    pool = Pool(4)

    def work(number: int) -> tuple[int, int]:
        sleep(0.005)
        return number, get_ident()

    done = pool.map_quickly(work, range(9))
    assert [number for number, _ in done] == list(range(9))
    assert done[0][1] == get_ident()
    assert len({thread for _, thread in done}) > 1


def test_nothing_is_done_quickly_with_nothing() -> None:
    assert Pool(2).map_quickly(str, []) == []
