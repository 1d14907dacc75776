"""Sources that an ingest goes on without, if it may.

Every error about a source begins with its path, or has it as where it happened: so the one to
leave out is known, whoever found out, the driver or an executor.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from frazil.errors import FormatError, IcechunkError, InvalidInputError, ObjectNotFoundError
from frazil.spark.sources import Source


class OnError(StrEnum):
    FAIL = "fail"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class SkippedSource:
    """`kind` and `reason` are those of the error."""

    path: str
    kind: str
    reason: str


def parse_on_error(text: str) -> OnError:
    try:
        return OnError(text)
    except ValueError:
        raise InvalidInputError(f"on_error is {text!r}, expected 'fail' or 'skip'") from None


def skipped(path: str, error: IcechunkError) -> SkippedSource:
    return SkippedSource(path, error.kind or type(error).__name__, str(error))


def without_bad_sources[T](
    sources: Sequence[Source],
    work: Callable[[tuple[Source, ...]], T],
    policy: OnError,
    start_again: Callable[[], None],
) -> tuple[T, tuple[SkippedSource, ...]]:
    """What `work` makes of the sources, without those that it fails because of.

    Before each further try `start_again` is called. Raises the error if it is nobody's fault, if
    the policy is to fail, or if no source is left.
    """
    left, gone = list(sources), list[SkippedSource]()
    while True:
        try:
            return work(tuple(left)), tuple(gone)
        except IcechunkError as error:
            bad = None if policy is OnError.FAIL else _blamed(error, left)
            if bad is None or len(left) == 1:
                raise
            left.remove(bad)
            gone.append(skipped(bad.path, error))
        start_again()


def _blamed(error: IcechunkError, sources: Iterable[Source]) -> Source | None:
    match error:
        case FormatError():
            where = error.where or ""
        case ObjectNotFoundError():
            where = error.key
        case _:
            where = ""
    text = str(error)
    for source in sources:
        if where == source.path or text.startswith(f"{source.path}: "):
            return source
    return None
