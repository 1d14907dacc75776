"""One commit per job, and never a second one for the same key.

A commit tells how it was made, in its metadata under `METADATA_KEY`. A job that is started again,
or twice at once, finds the key of its note in the branch's history and commits nothing.

    find_commit                            before the work: perhaps it is done already
    commit_once    look, commit            after it
                   |- beaten to it: rebase, if the policy allows, look again, commit
                   '- the rebase fails: look again; the error, unless a twin made the commit
"""

import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import uuid4

from frazil.engine.merge.rebase import Rebasing
from frazil.engine.refs.commit_metadata import KEY, NOTES, has_key
from frazil.engine.refs.entry import backoff_s
from frazil.engine.refs.version import Branch, Exactly
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
    for attempt in range(rebasing.tries + 1 if rebasing else 1):
        try:
            if attempt and rebasing:
                time.sleep(backoff_s(attempt - 1, base_s=0.01, cap_s=1.0, uniform=random.uniform))
                session.rebase(rebasing.policy)
            # The session's base is the newest commit this sees, or the commit below fails.
            done = find_commit(repository, branch, note.key)
            if done is not None:
                return Committed(done, made=False)
            made = session.commit(message, told, allow_empty=allow_empty)
            return Committed(str(made), made=True)
        except ConflictError as error:
            done = find_commit(repository, branch, note.key)
            if done is not None:
                return Committed(done, made=False)
            beaten = error
            if error.kind != "commit-conflict":
                raise
    raise beaten


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
