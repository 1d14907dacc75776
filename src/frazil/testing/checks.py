"""Helpers for checks that run with pytest and, for `python -m frazil.testing`, without it."""

from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from types import TracebackType
from typing import Any

CASES = "__cases__"


class Raises[E: Exception]:
    """A context manager that fails unless its block raises this kind of error; `value` holds it."""

    value: E

    def __init__(self, kind: type[E]) -> None:
        self._kind = kind

    def __enter__(self) -> "Raises[E]":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        del kind, trace
        if error is None:
            raise AssertionError(f"no {self._kind.__name__} was raised")
        if not isinstance(error, self._kind):
            return False
        self.value = error
        return True


def raises[E: Exception](kind: type[E]) -> Raises[E]:
    return Raises(kind)


def parametrize[F: Callable[..., object]](
    names: str | Sequence[str], values: Sequence[Any], ids: Sequence[str] | None = None
) -> Callable[[F], F]:
    """Runs a check once per value, like `pytest.mark.parametrize`, with or without pytest."""
    arguments = [names] if isinstance(names, str) else list(names)

    def decorate(check: F) -> F:
        rows = [(value,) if isinstance(names, str) else tuple(value) for value in values]
        setattr(check, CASES, [dict(zip(arguments, row, strict=True)) for row in rows])
        if find_spec("pytest") is None:
            return check
        import pytest  # noqa: PLC0415 -- not needed by `python -m frazil.testing`

        marked: F = pytest.mark.parametrize(names, values, ids=ids)(check)
        return marked

    return decorate


def checks_of(contract: type) -> Iterator[tuple[str, Callable[..., object], dict[str, Any]]]:
    """Name, method and arguments of every check of a contract class, case by case."""
    names = [name for base in contract.__mro__ for name in vars(base)]
    for name in dict.fromkeys(name for name in names if name.startswith("test_")):
        check = getattr(contract, name)
        title = name.removeprefix("test_").replace("_", " ")
        for arguments in getattr(check, CASES, [{}]):
            shown = ", ".join(" ".join(repr(value).split())[:40] for value in arguments.values())
            yield f"{title} ({shown})" if shown else title, check, arguments
