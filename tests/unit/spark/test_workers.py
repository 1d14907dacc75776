"""Workers: garbage collection, and reading ahead."""

import subprocess
import sys
from threading import Event

import pytest

from frazil.spark.runtime.workers import read_ahead

SCRIPT = """
import gc
from frazil.spark.runtime.workers import limit_gc
for _ in range(4):
    limit_gc()
frozen = gc.get_freeze_count()
more = [[] for _ in range(1000)]
limit_gc()
print(frozen > 1000, gc.get_freeze_count() <= frozen)
"""


def test_what_is_there_after_a_few_tasks_is_never_looked_at_again() -> None:
    # in a process of its own: freezing is for good
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["True", "True"]


def test_the_next_item_is_read_while_the_caller_works_on_one() -> None:
    started = [Event() for _ in range(4)]

    def read(number: int) -> int:
        started[number].set()
        return 10 * number

    found = []
    for number, value in enumerate(read_ahead(read, range(4))):
        assert started[min(number + 1, 3)].wait(60)
        found.append(value)
    assert found == [0, 10, 20, 30]
    assert list(read_ahead(read, [])) == []


def test_an_error_while_reading_ahead_is_raised_in_its_turn() -> None:
    items = read_ahead(lambda number: 1 // number, [1, 0])
    assert next(items) == 1
    with pytest.raises(ZeroDivisionError):
        next(items)
