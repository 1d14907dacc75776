"""Work that is begun before its result is asked for."""

from collections.abc import Iterator
from threading import Event

import pytest

from frazil.maintenance.executor import prefetch_results


def test_results_come_in_order_and_the_next_is_worked_on_meanwhile() -> None:
    begun = [Event() for _ in range(4)]

    def work(number: int) -> int:
        begun[number].set()
        return number * 10

    found = []
    for number, result in enumerate(prefetch_results(work, range(4))):
        found.append(result)
        assert begun[min(number + 1, 3)].wait(10)  # though nobody has asked for it
    assert found == [0, 10, 20, 30]
    assert not list(prefetch_results(work, []))


def test_no_more_than_the_next_is_begun() -> None:
    taken = []

    def items() -> Iterator[int]:
        for number in range(9):
            taken.append(number)
            yield number

    results = prefetch_results(abs, items())
    assert next(results) == 0
    assert taken == [0, 1]
    results.close()  # type: ignore[attr-defined]  # a generator
    assert taken == [0, 1]


def test_a_failure_comes_after_what_was_done_before_it() -> None:
    results = prefetch_results(lambda number: 6 // number, [3, 2, 0, 1])
    assert [next(results), next(results)] == [2, 3]
    with pytest.raises(ZeroDivisionError):
        next(results)
