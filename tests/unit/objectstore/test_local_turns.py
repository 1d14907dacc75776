"""Writers of one directory go in the order of arrival, and a dead or stopped one is passed."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import frazil
from frazil.objectstore.local import LocalStore
from frazil.objectstore.local.local_turns import Turn, taking_turns

WAITS_FOREVER = """
import sys, time
from frazil.objectstore.local.local_turns import Turn
turn = Turn(sys.argv[1])
turn.wait()
print("mine", flush=True)
time.sleep(600)
"""


def tickets(folder: Path) -> list[str]:
    return sorted(name for name in os.listdir(folder) if name.startswith(".frazil-turn#"))  # noqa: PTH208 -- names


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


@pytest.fixture
def other(tmp_path: Path) -> "subprocess.Popen[str]":
    """A process that has its turn, and keeps it."""
    process = subprocess.Popen(
        [sys.executable, "-c", WAITS_FOREVER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout
    assert process.stdout.readline() == "mine\n"
    return process


def end(process: "subprocess.Popen[str]") -> None:
    process.kill()
    process.communicate()


def test_what_is_done_in_a_turn_is_part_of_it(tmp_path: Path) -> None:
    with taking_turns(str(tmp_path)) as outer, taking_turns(str(tmp_path / "..")) as elsewhere:
        assert outer
        outer.wait()
        with taking_turns(str(tmp_path)) as inner:
            assert inner is outer
            inner.wait()
        assert len(tickets(tmp_path)) == 1  # the inner one does not end the outer one
        assert elsewhere is not outer
    assert not tickets(tmp_path)
    with taking_turns(None) as none:
        assert none is None


def test_threads_do_not_share_their_turns(tmp_path: Path) -> None:
    order = list[str]()

    def go() -> None:
        with taking_turns(str(tmp_path)) as turn:
            assert turn
            assert turn.begin()
            order.append("second")

    with taking_turns(str(tmp_path)) as turn:
        assert turn
        assert not turn.begin()  # nobody is there
        turn.wait()
        thread = threading.Thread(target=go)
        thread.start()
        until(lambda: len(tickets(tmp_path)) == 2)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


def test_writers_go_in_the_order_of_arrival(tmp_path: Path) -> None:
    first, order, threads = Turn(str(tmp_path)), list[int](), list[threading.Thread]()
    first.wait()

    def go(number: int) -> None:
        turn = Turn(str(tmp_path))
        turn.wait()
        order.append(number)
        turn.leave()

    for number in range(8):
        threads.append(threading.Thread(target=go, args=(number,)))
        threads[-1].start()
        until(lambda: len(tickets(tmp_path)) == len(threads) + 1)
    assert order == []
    first.leave()
    for thread in threads:
        thread.join(60)
    assert order == list(range(8))
    assert tickets(tmp_path) == []


def test_a_writer_queues_only_if_others_wait(tmp_path: Path) -> None:
    def begins() -> bool:
        second = Turn(str(tmp_path), patience_s=0.01)
        try:
            return second.begin()
        finally:
            second.leave()

    first = Turn(str(tmp_path))
    assert not first.begin()
    assert not tickets(tmp_path)
    first.wait()
    first.wait()  # it has its turn already
    assert begins()
    first.leave()
    assert not begins()


def test_a_writer_that_was_killed_is_passed(tmp_path: Path, other: "subprocess.Popen[str]") -> None:
    assert len(tickets(tmp_path)) == 1
    end(other)
    turn = Turn(str(tmp_path), patience_s=1e9)
    turn.wait()
    assert len(tickets(tmp_path)) == 1
    turn.leave()
    assert tickets(tmp_path) == []


def test_a_writer_that_was_stopped_is_passed_and_keeps_its_place(
    tmp_path: Path, other: "subprocess.Popen[str]"
) -> None:
    try:
        other.send_signal(signal.SIGSTOP)
        looks = list[float]()

        def look_again(pause_s: float) -> None:
            looks.append(pause_s)
            time.sleep(pause_s)

        turn = Turn(str(tmp_path), patience_s=0.01, sleep=look_again)
        turn.wait()
        assert looks
        assert len(tickets(tmp_path)) == 1
        turn.leave()
    finally:
        end(other)


def test_a_writer_that_was_passed_takes_its_old_place(tmp_path: Path) -> None:
    slow, later = Turn(str(tmp_path)), Turn(str(tmp_path), patience_s=0.001)
    slow.wait()
    (before,) = tickets(tmp_path)
    later.wait()  # it has passed the slow one
    (mine,) = tickets(tmp_path)
    slow.wait()
    assert tickets(tmp_path) == [before, mine]
    slow.leave()
    later.leave()


def test_tickets_are_neither_objects_nor_kept_for_long(tmp_path: Path) -> None:
    store, turn = LocalStore(tmp_path), Turn(str(tmp_path))
    store.put("repo", b"x")
    turn.wait()
    assert [info.key for info in store.list()] == ["repo"]
    assert store.collect_leftovers(3600) == 0
    assert store.collect_leftovers(-3600) == 1
    turn.leave()


@pytest.mark.parametrize("folder", ["missing", "file"])
def test_where_no_ticket_can_be_made_there_is_no_queue(tmp_path: Path, folder: str) -> None:
    (tmp_path / "file").touch()
    turn = Turn(str(tmp_path / folder))
    assert not turn.begin()
    turn.wait()
    turn.leave()


def test_every_change_of_a_repository_waits_for_its_turn(tmp_path: Path) -> None:
    """A commit that rebases has its turn already when it changes the entry point."""
    repository = frazil.Repository.create(frazil.local_filesystem_storage(str(tmp_path)))
    tip, done = repository.lookup_branch("main"), list[str]()

    def commit() -> None:
        session = repository.writable_session("main")
        session.commit("empty", allow_empty=True, rebase_with=frazil.ConflictDetector())

    changes: dict[str, Callable[[], object]] = {
        "tag": lambda: repository.create_tag("t", tip),
        "collection": lambda: repository.garbage_collect(datetime.now(UTC) - timedelta(days=30)),
        "commit": commit,
    }

    def do(name: str) -> None:
        changes[name]()
        done.append(name)

    threads = [threading.Thread(target=do, args=[name]) for name in changes]
    with taking_turns(str(tmp_path)) as turn:
        assert turn
        turn.wait()
        for number, thread in enumerate(threads, start=2):
            thread.start()
            while len(tickets(tmp_path)) < number:
                time.sleep(0.001)
        assert not done
    for thread in threads:
        thread.join(60)
    assert done == list(changes)
    assert not tickets(tmp_path)
