"""Errors of tasks arrive on the driver as what they were, and nothing else does."""

import base64
import pickle
from pathlib import Path

import pytest
from pyspark.errors import PySparkException

from frazil.errors import (
    Conflict,
    ConflictType,
    FormatError,
    IcechunkError,
    InvalidInputError,
    ObjectChangedError,
    RebaseFailedError,
)
from frazil.spark.runtime.workers import TaskFailedError, errors_carried, unpack_error

ERRORS = [
    FormatError("bad", where="repo"),
    InvalidInputError("no", kind="bad-metadata"),
    ObjectChangedError("s3://b/k", "ETag a", None),
    RebaseFailedError("ABC", [Conflict(ConflictType.ChunkDoubleUpdate, "/a", [[1, 2]])]),
]


def arriving(text: str) -> BaseException:
    with pytest.raises(Exception) as caught, errors_carried():  # noqa: PT011 - any at all
        raise PySparkException(text)
    return caught.value


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_is_what_it_was(error: IcechunkError) -> None:
    found = arriving(f"Job aborted\n  {TaskFailedError(error)}\n at line 3")
    assert type(found) is type(error)
    assert str(found) == str(error)
    assert vars(found) == vars(error)
    assert found.args == error.args


class Execute:
    """A pickle that makes a file when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.path,)


def test_a_name_that_looks_like_a_carried_error_is_not_executed(tmp_path: Path) -> None:
    """A node of a repository from a stranger may have any name, and errors name it."""
    packed = base64.b64encode(pickle.dumps(Execute(tmp_path / "made"))).decode()
    name = f"/x<frazil-error {packed}>"
    found = arriving(str(TaskFailedError(InvalidInputError(f"cannot read {name}"))))
    assert isinstance(found, InvalidInputError)
    assert isinstance(arriving(name), PySparkException)
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "!!",
        "bnVsbA==",  # null
        base64.b64encode(b'{"class":"Path","args":[],"state":{}}').decode(),
        base64.b64encode(b'{"class":"_revive","args":[],"state":{}}').decode(),
        base64.b64encode(b'{"class":"FormatError","args":{},"state":{}}').decode(),
        base64.b64encode(b'{"class":"RebaseFailedError","args":[],"state":{"conflicts":[1]}}').decode(),
        base64.b64encode(b"[" * 100_000).decode(),
    ],
    ids=range(8),
)  # fmt: skip
def test_what_is_no_error_of_ours_is_none(text: str) -> None:
    assert unpack_error(text) is None
