"""Errors of our tree on their way through Spark, which carries only text.

A task's exception reaches the driver as a traceback inside a message. The error itself travels in
that text, pickled, between two marks, and is raised again on the driver as what it was.
"""

import base64
import pickle
import re
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import PySparkException

from frazil.errors import IcechunkError

_CARRIED = re.compile(r"<frazil-error ([A-Za-z0-9+/=]+)>")


class TaskFailedError(RuntimeError):
    """What Spark sees: the message for its log, the error for the driver."""

    def __init__(self, error: IcechunkError) -> None:
        packed = base64.b64encode(pickle.dumps(error)).decode()
        super().__init__(f"{error} <frazil-error {packed}>")


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
        found = _CARRIED.search(str(error))
        if found is None:
            raise
        # made by our own tasks, in the process that Spark started for this session
        carried = pickle.loads(base64.b64decode(found[1]))  # noqa: S301
        if not isinstance(carried, IcechunkError):
            raise
        raise carried from error
