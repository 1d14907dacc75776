"""Pools that are used by their own work, in part, or beside other work."""

from threading import Lock
from time import sleep

import pytest

from frazil.assets.pool import Pool


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


def test_what_goes_on_beside_is_done_before_anything_is_raised() -> None:
    done: list[str] = []

    def fail() -> None:
        raise ValueError("at work")

    with pytest.raises(ValueError, match="at work"):
        Pool(2).beside(lambda: done.append("aside"), fail)
    with pytest.raises(ValueError, match="at work"):
        Pool(2).beside(fail, lambda: done.append("work"))

    assert done == ["aside", "work"]
