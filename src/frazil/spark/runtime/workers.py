"""Set-up of a Python worker, and errors that travel from tasks to the driver.

Spark's worker daemon runs `gc.collect()` after every task. With numpy, zarr and pyarrow imported
a collection looks at some 70,000 objects that will never be garbage: 20 to 50 ms of every task.
Freezing them takes a task to under 1 ms (docs/spark-facts.md 5). Libraries are imported lazily
during the first few tasks, so once is not enough.
"""

import base64
import gc
import json
import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql.datasource import InputPartition

from frazil.errors import Conflict, ConflictType, IcechunkError

_TASKS_TO_FREEZE = 4
_frozen: list[None] = []  # one entry for each freeze done in this process


def limit_gc() -> None:
    """Sets up the garbage collector. Every task and plan calls it first; later calls do nothing.

    PySpark collects garbage after each of them, which takes 60 ms where all modules are looked at.
    """
    if len(_frozen) < _TASKS_TO_FREEZE:
        gc.freeze()
        _frozen.append(None)


def read_ahead[T, R](read: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
    """Results in order of the items; the next one is read while the caller works on one."""
    with ThreadPoolExecutor(1) as reader:
        waiting: deque[Future[R]] = deque()
        for item in items:
            waiting.append(reader.submit(read, item))
            if len(waiting) > 1:
                yield waiting.popleft().result()
        yield from (each.result() for each in waiting)


# Errors of our tree on their way through Spark, which carries only text.
#
# A task's exception reaches the driver as a traceback inside a message. The error itself travels in
# that text, between two marks, and is raised again on the driver as what it was. As JSON: the text
# also has names and messages of the repository, and their writer can write such marks too.
# All they could make of it is an error.

_CARRIED = re.compile(r"<frazil-error ([A-Za-z0-9+/=]+)>")
_CONFLICTS = "conflicts"  # the one attribute of errors that is more than JSON


class TaskFailedError(RuntimeError):
    """The error that Spark sees: the message for its log, the original error for the driver."""

    def __init__(self, error: IcechunkError) -> None:
        super().__init__(f"{error} <frazil-error {pack_error(error)}>")


def pack_error(error: IcechunkError) -> str:
    state = {name: value for name, value in vars(error).items() if not name.startswith("_")}
    if _CONFLICTS in state:
        state[_CONFLICTS] = [
            [int(each.conflict_type), each.path, each.conflicted_chunks]
            for each in state[_CONFLICTS]
        ]
    told = {"class": type(error).__name__, "args": error.args, "state": state}
    return base64.b64encode(json.dumps(told, default=str).encode()).decode()


def unpack_error(packed: str) -> IcechunkError | None:
    """None for what is no error of our tree."""
    try:
        told = json.loads(base64.b64decode(packed))
    except (ValueError, RecursionError):
        return None
    match told:
        case {"class": str(name), "args": list(args), "state": dict(state)}:
            kind = next((each for each in _tree(IcechunkError) if each.__name__ == name), None)
            return None if kind is None else _revive_error(kind, args, state)
    return None


def _tree(root: type[IcechunkError]) -> Iterator[type[IcechunkError]]:
    yield root
    for each in root.__subclasses__():
        yield from _tree(each)


def _revive_error(
    kind: type[IcechunkError], args: list[Any], state: dict[str, Any]
) -> IcechunkError | None:
    """Without calling an `__init__` whose signature a subclass changed."""
    try:
        if _CONFLICTS in state:
            state[_CONFLICTS] = [
                Conflict(ConflictType(number), str(path), chunks)
                for number, path, chunks in state[_CONFLICTS]
            ]
            args = [*args[:-1], state[_CONFLICTS]]
        error = kind.__new__(kind, *args)
    except (TypeError, ValueError):
        return None
    error.args = tuple(args)
    error.message, error.kind = str(state.get("message", "")), kind.default_kind
    vars(error).update(state)
    return error


@contextmanager
def carrying_errors() -> Iterator[None]:
    """Around the body of a task."""
    try:
        yield
    except IcechunkError as error:
        raise TaskFailedError(error) from error


@contextmanager
def errors_carried() -> Iterator[None]:
    """Around the action on the driver. Other failures of Spark stay Spark's."""
    try:
        yield
    except PySparkException as error:
        # Our own mark comes after the message, and with it after what others wrote.
        found = _CARRIED.findall(str(error))
        carried = unpack_error(found[-1]) if found else None
        if carried is None:
            raise
        raise carried from error


# Value of a partition, for the executor that reads it.


def value_of(partition: InputPartition | None) -> Any:
    """None if it is Spark's stand-in for an empty list of partitions, and nothing is to be read.

    That is a partition without value; with PySpark 4.1 it is no partition at all.
    """
    return None if partition is None else partition.value
