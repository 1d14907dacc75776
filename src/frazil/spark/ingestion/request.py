"""What an ingest is asked to do, checked."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from frazil.errors import InvalidInputError
from frazil.paths import NodePath
from frazil.repo.repository import Repository
from frazil.spark.ingestion.skipping import OnError


class IngestMode(StrEnum):
    CREATE = "create"
    APPEND = "append"
    REGION = "region"  # replaces a part of what is there


class Combine(StrEnum):
    CONCAT = "concat"  # along the dimensions named
    COORDS = "coords"  # along those whose coordinates differ


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    repository: Repository
    group: NodePath
    dims: tuple[str, ...]  # along which sources follow one another
    combine: Combine
    chunks: dict[str, int]
    branch: str
    mode: IngestMode
    virtual: bool
    on_error: OnError
    variables: tuple[str, ...] | None
    source_group: str | None
    key: str | None
    resume: bool  # where an earlier run failed

    def __post_init__(self) -> None:
        if self.changes_group and not self.dims:
            raise InvalidInputError(f"mode={str(self.mode)!r} needs a concat_dim")
        if self.mode is IngestMode.REGION and self.virtual:
            raise InvalidInputError(
                "a region is copied: virtual chunks are created, or appended to arrays"
            )
        if self.combine is Combine.COORDS and self.dims:
            raise InvalidInputError("combine='coords' finds the dimensions itself: no concat_dim")
        if len(set(self.dims)) != len(self.dims):
            raise InvalidInputError(f"concat_dim names a dimension twice: {list(self.dims)}")

    @property
    def changes_group(self) -> bool:
        """Which must be there."""
        return self.mode is not IngestMode.CREATE


def parse_dims(given: str | Iterable[str] | None) -> tuple[str, ...]:
    if given is None:
        return ()
    return (given,) if isinstance(given, str) else tuple(given)


def parse_mode(text: str) -> IngestMode:
    try:
        return IngestMode(text)
    except ValueError:
        raise InvalidInputError(
            f"mode is {text!r}, expected 'create', 'append' or 'region'"
        ) from None


def parse_combine(text: str) -> Combine:
    try:
        return Combine(text)
    except ValueError:
        raise InvalidInputError(f"combine is {text!r}, expected 'concat' or 'coords'") from None
