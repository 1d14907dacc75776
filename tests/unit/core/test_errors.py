import ast
import pickle
from pathlib import Path

import pytest

from frazil import errors
from frazil.errors import (
    ConflictError,
    FormatError,
    IcechunkError,
    InvalidInputError,
    NodeNotFoundError,
    ObjectNotFoundError,
)

EVERY_CLASS = [
    cls for cls in vars(errors).values() if isinstance(cls, type) and issubclass(cls, IcechunkError)
]


def test_the_drawing_shows_every_class() -> None:
    assert errors.__doc__ is not None
    assert [cls.__name__ for cls in EVERY_CLASS if cls.__name__ not in errors.__doc__] == []


def test_errors_are_also_the_builtin_a_caller_would_expect() -> None:
    assert issubclass(NodeNotFoundError, KeyError)
    assert issubclass(InvalidInputError, ValueError)
    assert issubclass(ObjectNotFoundError, FileNotFoundError)


@pytest.mark.parametrize(
    "error",
    [
        NodeNotFoundError("no node at `/a`"),
        ObjectNotFoundError("repo"),
        ConflictError("A", "B", "lost"),
        FormatError("too short", where="repo"),
        InvalidInputError("bad", kind="bad-metadata"),
    ],
)
def test_errors_survive_pickling_with_all_they_know(error: IcechunkError) -> None:
    copy = pickle.loads(pickle.dumps(error))

    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)


def test_a_format_error_names_the_file_once() -> None:
    error = FormatError("too short").at("repo").at("elsewhere")

    assert str(error) == "repo: too short"
    assert error.where == "repo"


def test_every_raised_conflict_names_its_message() -> None:
    """The first positional argument of a ConflictError is a snapshot, not a text."""
    wrong = [
        f"{path.name}:{node.lineno}"
        for path in Path(errors.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and getattr(node.func, "id", getattr(node.func, "attr", "")) == "ConflictError"
        and node.args
    ]
    assert wrong == []


def test_an_error_without_a_kind_has_that_of_its_class() -> None:
    assert InvalidInputError("bad").kind == "invalid-key"
    assert InvalidInputError("bad").args == ("bad", "invalid-key")
