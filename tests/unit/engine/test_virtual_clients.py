"""One client for each place, however many ask at once."""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from frazil.engine.files.virtual_chunks import SourceClients
from frazil.errors import StorageError
from frazil.objectstore.protocol import DataList, Expectation, SourceStore
from frazil.ranges import Range


class Nothing:
    """A source without objects."""

    def read(
        self, key: str, ranges: Sequence[Range], *, expected: Expectation | None = None
    ) -> DataList:
        raise AssertionError((key, ranges, expected))

    def size_bytes(self, key: str) -> int:
        raise AssertionError(key)


def test_of_many_who_ask_at_once_one_makes_the_client() -> None:
    clients, made, start = SourceClients(50), list[int](), threading.Barrier(16)

    def make() -> SourceStore:
        made.append(1)
        threading.Event().wait(0.05)  # so that the others do arrive meanwhile
        return Nothing()

    def ask(number: int) -> SourceStore:
        start.wait()
        return clients.find(("prefix", number % 2), make)

    with ThreadPoolExecutor(16) as threads:
        found = list(threads.map(ask, range(16)))
    assert len(made) == 2
    assert len({id(one) for one in found}) == 2


def test_a_failure_reaches_all_who_wait_and_is_not_kept() -> None:
    clients, tries, start = SourceClients(50), list[int](), threading.Barrier(4)

    def fail() -> SourceStore:
        tries.append(1)
        threading.Event().wait(0.05)
        raise StorageError("no")

    def ask(_: int) -> str:
        start.wait()
        with pytest.raises(StorageError, match="no") as caught:
            clients.find("place", fail)
        return str(caught.value)

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(ask, range(4))) == ["no"] * 4
    assert len(tries) == 1
    assert isinstance(clients.find("place", Nothing), Nothing)


def test_the_clients_used_last_are_kept() -> None:
    clients = SourceClients(2)
    first, second = clients.find(1, Nothing), clients.find(2, Nothing)
    assert clients.find(1, Nothing) is first
    clients.find(3, Nothing)
    assert clients.find(1, Nothing) is first
    assert clients.find(2, Nothing) is not second
