"""What a Python worker of Spark does before its first work.

Spark's worker daemon runs `gc.collect()` after every task. With numpy, zarr and pyarrow imported
a collection looks at some 70,000 objects that will never be garbage: 20 to 50 ms of every task.
Freezing them takes a task to under 1 ms (SPARK.md §5). Libraries are imported lazily during the
first few tasks, so once is not enough.
"""

import gc

_TASKS_TO_FREEZE = 4
_frozen: list[None] = []  # one entry for each freeze done in this process


def tame_gc() -> None:
    """Call first in whatever runs on a worker; does something in the first few calls only."""
    if len(_frozen) < _TASKS_TO_FREEZE:
        gc.collect()
        gc.freeze()
        _frozen.append(None)
