"""A cluster in this process: blocks and results are pickled, as on their way between workers."""

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from frazil.engine.files.files import Files
from frazil.maintenance.executor import (
    HERE,
    Block,
    Scattered,
    Sizes,
    Task,
    ThreadExecutor,
    split_rows,
)

_ROWS_PER_TASK = 3
_WORKERS = 4


def send[T](value: T) -> T:
    sent: T = pickle.loads(pickle.dumps(value))
    return sent


@dataclass(frozen=True, slots=True)
class ScatteredBlocks:
    blocks: tuple[Block, ...]

    @property
    def results(self) -> Sequence[Any]:
        return [block for share, block in self.blocks if share == HERE]


@dataclass(frozen=True, slots=True)
class LocalCluster(ThreadExecutor):
    """Runs gathering tasks once for each of four workers, and tasks that scatter three rows."""

    @property
    def is_remote(self) -> bool:
        return True

    def scatter(
        self, task: Task[Iterable[Block]], count: int, doing: str, *, sizes: Sizes | None = None
    ) -> ScatteredBlocks:
        del doing, sizes
        ranges = split_rows(count, _ROWS_PER_TASK)
        return ScatteredBlocks(
            tuple(send(one) for some in ranges for one in task(self.files, some))
        )

    def gather[T](
        self,
        scattered: Sequence[Scattered],
        task: Callable[[Files, Iterator[Sequence[Any]]], Iterable[T]],
        doing: str,
        *,
        many: bool = False,
    ) -> Iterator[T]:
        del doing, many
        shares: dict[int, list[Any]] = {}
        for each in scattered:
            assert isinstance(each, ScatteredBlocks)
            for share, block in each.blocks:
                if share != HERE:
                    shares.setdefault(share, []).append(send(block))
        for worker in range(_WORKERS):
            mine = iter([shares[share] for share in sorted(shares) if share % _WORKERS == worker])
            yield from map(send, task(self.files, mine))
