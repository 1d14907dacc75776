"""Arrays cut into boxes, one for each task: whole chunks of what is written, bounded in memory."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

# A task should take at least some 50 ms, for Spark's overhead not to matter, and hold at most this
# much in memory; between the two there are a few tasks per core, so that none waits long.
MIN_TASK_BYTES = 8 << 20
MAX_TASK_BYTES = 64 << 20
TASKS_PER_CORE = 4

type Region = tuple[slice, ...]


@dataclass(frozen=True, slots=True)
class Cut:
    """A shape cut into boxes, numbered from 0, the last dimension fastest; the last are smaller."""

    shape: tuple[int, ...]
    box: tuple[int, ...]

    @property
    def counts(self) -> tuple[int, ...]:
        return tuple(-(-n // size) for n, size in zip(self.shape, self.box, strict=True))

    def __len__(self) -> int:
        return prod(self.counts)

    def place(self, number: int) -> tuple[int, ...]:
        """Of a box in the grid of boxes."""
        place = []
        for count in reversed(self.counts):
            number, along = divmod(number, count)
            place.append(along)
        return tuple(reversed(place))

    def region(self, number: int) -> Region:
        return tuple(
            slice(along * size, min((along + 1) * size, n))
            for along, size, n in zip(self.place(number), self.box, self.shape, strict=True)
        )


def region_shape(region: Region) -> tuple[int, ...]:
    return tuple(part.stop - part.start for part in region)


def choose_box(
    shape: Sequence[int],
    unit: Sequence[int],
    source: Sequence[int],
    *,
    itemsize: int,
    max_bytes: int,
) -> tuple[int, ...]:
    """Whole units, grown to at most `max_bytes` if one unit is not more.

    First towards whole chunks of the source, so that few of them are read twice; then along
    the last dimensions, where chunks are neighbours.
    """
    box = [max(1, size) for size in unit]
    towards_source = [_round_up(min(s, n), u) for s, n, u in zip(source, shape, box, strict=True)]
    whole = [_round_up(n, u) for n, u in zip(shape, box, strict=True)]
    limit = max_bytes // max(1, itemsize)
    by_need = sorted(range(len(box)), key=lambda k: -towards_source[k] / box[k])
    for goal, order in ((towards_source, by_need), (whole, reversed(range(len(box))))):
        for k in order:
            _grow(box, k, goal[k], limit)
    return tuple(box)


def _grow(box: list[int], k: int, goal: int, limit: int) -> None:
    unit = box[k]
    fitting = limit // max(1, prod(box) // unit) // unit * unit
    box[k] = max(unit, min(goal, fitting))


def _round_up(number: int, unit: int) -> int:
    return -(-max(1, number) // unit) * unit


def task_bytes(total: int, parallelism: int) -> int:
    """How much one task should hold, for so much work on so many cores."""
    fair = total // (parallelism * TASKS_PER_CORE)
    return min(MAX_TASK_BYTES, max(MIN_TASK_BYTES, fair))
