"""Writes of files that are under way while the next files are encoded."""

from collections.abc import Buffer, Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from frazil.assets.pool import Pool
from frazil.objectstore.protocol import ObjectStore


@dataclass(slots=True)
class Outgoing:
    """Puts of files that nothing refers to before `settle` was called, in any order.

    A far store gets them at once. In a near one a thread costs more than it saves, and everything
    is done in its turn. On leaving the context nothing is under way any more.
    """

    store: ObjectStore
    pool: Pool
    _under_way: list[Callable[[], object]] = field(default_factory=list)

    def do(self, work: Callable[[], object], *, long: bool = False) -> None:
        """Does `work` now or in a thread; `long` work gets a thread for any store."""
        if long or self.store.far:
            self._under_way.append(self.pool.start(work))
        else:
            work()

    def put(self, key: str, data: Buffer) -> None:
        self.do(lambda: self.store.put(key, data))

    def settle(self) -> None:
        """Waits until everything has arrived. Raises the first failure, after all have ended."""
        failures = []
        while self._under_way:
            try:
                self._under_way.pop(0)()
            except BaseException as failure:  # noqa: BLE001 -- of whichever kind, it is raised below
                failures.append(failure)
        if failures:
            raise failures[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self.settle()
        except Exception:
            if failure is None:
                raise
