"""Connections to places outside of the repository: each made once, however many ask at once."""

import os
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from threading import Lock

from frazil.objectstore.protocol import SourceStore


class SourceClients:
    """At most `limit` clients; those not used for longest are let go.

    A client whose making failed is not kept: the next one who asks tries again. A forked child
    makes its own.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._lock = Lock()
        self._made: OrderedDict[Hashable, Future[SourceStore]] = OrderedDict()

    def find(self, name: Hashable, make: Callable[[], SourceStore]) -> SourceStore:
        key = (os.getpid(), name)
        with self._lock:
            client = self._made.get(key)
            is_mine = client is None
            if client is None:
                client = self._made[key] = Future()
            self._made.move_to_end(key)
            while len(self._made) > self.limit:
                self._made.popitem(last=False)
        if is_mine:
            self._make(key, client, make)
        return client.result()

    def _make(
        self, key: Hashable, client: Future[SourceStore], make: Callable[[], SourceStore]
    ) -> None:
        try:
            client.set_result(make())
        except BaseException as error:  # noqa: BLE001 -- raised again by `result`, for all who wait
            with self._lock:
                if self._made.get(key) is client:
                    del self._made[key]
            client.set_exception(error)
