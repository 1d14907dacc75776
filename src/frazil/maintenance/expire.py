"""Expiring snapshots: history gets shorter, at its old end.

What goes can no longer be opened, and the next collection of garbage takes its files. In version
2 one write of the repo info does it; version 1 keeps histories in snapshot files (expire_v1.py).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import islice

import numpy as np
import numpy.typing as npt

from frazil.errors import FormatError, InvalidInputError, ReadOnlyError
from frazil.format.generation import CURRENT
from frazil.format.repo_info import RepoInfo
from frazil.format.update_log import ExpirationRan, UpdateKind
from frazil.ids import SnapshotId, format_ids
from frazil.maintenance.retained import (
    Adoption,
    adoptions,
    nearest_of,
    retained,
    root_of,
)
from frazil.repo import history
from frazil.repo.refs import MAIN
from frazil.repo.repository import Repository


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireRequest:
    """What may go: everything older than a time, or of that only the snapshots named.

    Roots, and the tip of main, never do; tips of other branches and tags do with them, if asked.
    """

    older_than_us: int | None = None  # None: of any age
    delete_branches: bool = False
    delete_tags: bool = False
    snapshots: frozenset[SnapshotId] | None = None  # None: all
    retain_last: int = 0  # so many of each branch's history stay, from its tip on
    protected_branches: tuple[str, ...] = ()  # patterns; these and all of their history stay
    protected_tags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.older_than_us is None and self.snapshots is None:
            raise InvalidInputError("say what to expire: by age, or by snapshot ids")
        if self.retain_last < 0:
            raise InvalidInputError(f"retain_last is {self.retain_last}, expected 0 or more")

    @property
    def leaves_gaps(self) -> bool:
        """Whether more than one contiguous old end of each history may go."""
        return bool(
            self.snapshots is not None
            or self.retain_last
            or self.protected_branches
            or self.protected_tags
        )

    def protects(self, branches: Iterable[str], tags: Iterable[str]) -> Iterator[tuple[str, bool]]:
        """Names that are protected, and whether each is a tag."""
        yield from ((name, False) for name in branches if _matches(name, self.protected_branches))
        yield from ((name, True) for name in tags if _matches(name, self.protected_tags))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExpirePlan:
    """What expiring does to one repo info."""

    info: RepoInfo
    released: npt.NDArray[np.bool_]  # of each snapshot there
    adopted: dict[int, Adoption] = field(default_factory=dict)
    branches: tuple[str, ...] = ()  # to be deleted
    tags: tuple[str, ...] = ()

    @property
    def snapshots(self) -> list[str]:
        """Ids of those that go."""
        return format_ids(self.info.snapshots.ids[self.released])

    def applied(self) -> RepoInfo:
        return retained(
            self.info,
            ~self.released,
            self.adopted,
            without_branches=self.branches,
            without_tags=self.tags,
        )


def plan_expire(info: RepoInfo, request: ExpireRequest) -> ExpirePlan:
    """Of a repository of version 2."""
    expired = _expired(info, request)
    kept_refs = {name for name, is_tag in request.protects(info.branches, ()) if not is_tag}
    kept_tags = {name for name, is_tag in request.protects((), info.tags) if is_tag}
    released = expired.copy()
    if not request.delete_tags:
        released[list(info.tags.values())] = False
    if not request.delete_branches:
        released[list(info.branches.values())] = False
    released[info.branches[MAIN]] = False
    branches = [name for name, row in info.branches.items() if expired[row]]
    tags = [name for name, row in info.tags.items() if expired[row]]
    parent_of = nearest_of(info, ~released) if request.leaves_gaps else root_of(info)
    return ExpirePlan(
        info=info,
        released=released,
        adopted=adoptions(info, ~released, parent_of),
        branches=tuple(b for b in branches if b not in {MAIN, *kept_refs})
        if request.delete_branches
        else (),
        tags=tuple(t for t in tags if t not in kept_tags) if request.delete_tags else (),
    )


def expire(repository: Repository, request: ExpireRequest) -> ExpirePlan:
    """What was done."""
    require_writable(repository, doing="expiring snapshots")
    done: list[ExpirePlan] = []

    def change(info: RepoInfo) -> tuple[RepoInfo, UpdateKind]:
        done.append(plan_expire(info, request))
        return done[-1].applied(), ExpirationRan()

    repository.entry.update(change, doing="expiring snapshots")
    return done[-1]


def require_writable(repository: Repository, *, doing: str) -> None:
    """Raises ReadOnlyError, and FormatError for generations before version 1."""
    if repository.generation not in CURRENT:
        raise FormatError(
            f"{doing} needs a repository of version 1 or 2, and this one is of generation"
            f" {repository.generation}: migrate it first",
            kind="unsupported-spec-version",
        )
    if not repository.store.writable:
        raise ReadOnlyError(
            f"the storage is read-only: {doing} is not possible", kind="read-only-storage"
        )


def _expired(info: RepoInfo, request: ExpireRequest) -> npt.NDArray[np.bool_]:
    """Snapshots that may go, whether or not a ref holds them."""
    snapshots = info.snapshots
    expired = snapshots.parents >= 0
    if request.older_than_us is not None:
        expired &= snapshots.flushed_at_us < max(0, request.older_than_us)
    if request.snapshots is not None:
        named = np.zeros(len(expired), np.bool_)
        named[[history.require_row(info, each) for each in request.snapshots]] = True
        expired &= named
    if request.retain_last:
        for row in info.branches.values():
            expired[list(islice(snapshots.ancestors(row), request.retain_last))] = False
    for name, is_tag in request.protects(info.branches, info.tags):
        row = info.tags[name] if is_tag else info.branches[name]
        expired[list(snapshots.ancestors(row))] = False
    return expired


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
