"""Sessions that start where a job was planned, however far the branch has moved since."""

from frazil.ids import SnapshotId
from frazil.repo.repository import Repository
from frazil.repo.session import Session
from frazil.repo.version import Exactly


def session_at(repository: Repository, branch: str, snapshot: str) -> Session:
    """A writable session of the branch, based on a snapshot that was its tip.

    If it is no longer, the commit finds out, and is rebased or fails.
    """
    base = repository.readonly_session(Exactly(SnapshotId.parse(snapshot)))
    return Session(
        base.files,
        repository.clock,
        base.base,
        branch=branch,
        default_metadata=repository.default_commit_metadata,
    )
