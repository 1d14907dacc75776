"""One commit per job, and never a second one for the same key.

A commit tells how it was made, in its metadata under `METADATA_KEY`. A job that is started again,
or twice at once, finds the key of its note in the branch's history and commits nothing.

    find_commit                            before the work: perhaps it is done already
    commit_once    look, commit            after it
                   |- beaten to it: rebase, if the policy allows, look again, commit
                   '- the rebase fails: look again; the error, unless a twin made the commit
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import uuid4

from frazil.engine.merge.rebase import Rebasing, commit_rebasing
from frazil.engine.merge.solver import Policy
from frazil.engine.refs.commit_metadata import KEY, NOTES, has_key
from frazil.engine.refs.version import Branch, Exactly
from frazil.engine.refs.waiting import waiting_for
from frazil.engine.repository import Repository
from frazil.engine.session.session import Session
from frazil.errors import ConflictError
from frazil.flatbuf.flexbuffers import Json
from frazil.ids import SnapshotId

METADATA_KEY = NOTES  # of the commit, holds what `CommitNote` says


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitNote:
    """Notes that a job stores in its commit. Without a `key` the job runs each time."""

    operation: str
    application: str
    key: str | None = None
    job: str = field(default_factory=lambda: uuid4().hex)
    facts: Mapping[str, Json] = field(default_factory=dict)

    def to_json(self) -> dict[str, Json]:
        return {
            "operation": self.operation,
            "application": self.application,
            "job": self.job,
            **self.facts,
            KEY: self.key or self.job,
        }


@dataclass(frozen=True, slots=True)
class Committed:
    """`made` is False when the commit was there already, made by an earlier run or a twin."""

    snapshot_id: str
    made: bool


def find_commit(repository: Repository, branch: str, key: str | None) -> str | None:
    """The snapshot in the branch's history that was made with the key, or took over one that was.

    See engine/refs/commit_metadata.py: by a squash, for instance.
    """
    if key is None:
        return None
    for record in repository.ancestry(Branch(branch)):
        if has_key(record.metadata, key):
            return str(record.id)
    return None


def commit_once(
    repository: Repository,
    session: Session,
    note: CommitNote,
    message: str,
    *,
    branch: str,
    metadata: Mapping[str, Json] | None = None,
    rebasing: Rebasing | None = None,
    allow_empty: bool = False,
) -> Committed:
    """Commits the session, unless a commit with the note's key is in the branch's history.

    Raises ConflictError if the branch has moved and `rebasing` is None, or cannot help.
    """
    told = {**(metadata or {}), METADATA_KEY: note.to_json()}

    def attempt(number: int) -> Committed:
        del number
        # The session's base is the newest commit this sees, or the commit below fails.
        done = find_commit(repository, branch, note.key)
        if done is not None:
            return Committed(done, made=False)
        return Committed(str(session.commit(message, told, allow_empty=allow_empty)), made=True)

    try:
        return commit_rebasing(
            attempt,
            session.rebase,
            rebasing or Rebasing(Policy(), tries=0),
            waiting_for(repository.files),
        )
    except ConflictError:
        done = find_commit(repository, branch, note.key)
        if done is None:
            raise
        return Committed(done, made=False)


# Sessions that start where a job was planned, however far the branch has moved since.


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
