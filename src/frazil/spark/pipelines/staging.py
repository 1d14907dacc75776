"""Work on a branch of its own, shown to others all at once.

    staging branch   at the tip of the branch -> the work, committed
    publish          the branch is moved there, if it is where it was: one compare-and-swap
    after            the staging branch is removed, also if the work failed

Of a job that was killed the staging branch stays. The next run of the same work removes it, or
publishes it, if it holds the result of that very plan and the branch has not moved.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from frazil.assets.layout import branch_key
from frazil.assets.reuse import ReusedObject, refresh_objects
from frazil.errors import ObjectNotFoundError, RefNotFoundError
from frazil.ids import SnapshotId
from frazil.repo.repository import Repository
from frazil.repo.version import Branch
from frazil.spark.jobs.commits import METADATA_KEY

PREFIX = "frazil-staging-"
PLAN = "plan"  # in the note of a commit


@dataclass(frozen=True, slots=True)
class Staging:
    repository: Repository
    branch: str  # that gets the result
    base: SnapshotId  # its tip
    name: str  # of the staging branch

    def publish(self, snapshot: SnapshotId) -> None:
        """Raises ConflictError if the branch has moved."""
        self.repository.reset_branch(self.branch, snapshot, expected=self.base)


def staging_branch(*identity: str) -> str:
    """The same name for the same work, so that a rerun finds what an earlier run left."""
    return PREFIX + digest(*identity)


def digest(*parts: str | bytes) -> str:
    """Short, and different for different lists of parts."""
    made = hashlib.sha256(usedforsecurity=False)
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        made.update(len(data).to_bytes(8, "little") + data)
    return made.hexdigest()[:16]


def find_finished(staging: Staging, plan: str) -> SnapshotId | None:
    """The commit of an earlier run of this very plan that was killed before it published."""
    tip = staging.repository.branches().get(staging.name)
    if tip is None or tip == staging.base:
        return None
    record = next(staging.repository.ancestry(Branch(staging.name)))
    note = record.metadata.get(METADATA_KEY)
    same = isinstance(note, dict) and note.get(PLAN) == plan
    if not same or record.parent_id != staging.base:
        return None
    return tip if _claim(staging) else None


def _claim(staging: Staging) -> bool:
    """True if the branch of the earlier run is there, and no leftover to be removed any more.

    Version 2 needs no claim: the branch that gets the result is moved in the same
    compare-and-swap that finds the snapshot still listed.
    """
    repository = staging.repository
    if repository.spec_version > 1:
        return True
    key = branch_key(staging.name)
    try:
        ref = ReusedObject(key, repository.store.head(key).size_bytes)
    except ObjectNotFoundError:
        return False
    return not refresh_objects(repository.store, [ref], repository.files.pool)


@contextmanager
def staged(staging: Staging, *, keep: bool = False) -> Iterator[None]:
    """While inside there is a staging branch, fresh unless it is to be kept."""
    repository = staging.repository
    if not keep:
        remove(staging)
        repository.create_branch(staging.name, staging.base)
    try:
        yield
    finally:
        remove(staging)


def remove(staging: Staging) -> None:
    with suppress(RefNotFoundError):
        staging.repository.delete_branch(staging.name)
