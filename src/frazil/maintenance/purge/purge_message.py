"""Messages of commits, taken out of all history: of snapshots, the entry point and its backups.

Snapshots keep their ids. In version 2 the ops log calls it a run of garbage collection: of the
kinds of updates that the format has, that is the one for lists of snapshots being put in order.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from frazil.engine.files.files import Files, annotate_errors
from frazil.engine.files.object_keys import OVERWRITTEN, REPO_INFO
from frazil.engine.repository import Repository
from frazil.errors import InvalidInputError, SnapshotNotFoundError
from frazil.flatbuf.flexbuffers import Json
from frazil.format.repo_info import RepoInfo, decode_repo_info, encode_repo_info
from frazil.format.snapshot import Snapshot
from frazil.format.update_log import GCRan, UpdateKind
from frazil.ids import SnapshotId
from frazil.maintenance.executor import (
    REPLACEMENT,
    Executor,
    ThreadExecutor,
    quiet_files,
    require_current,
)
from frazil.maintenance.inventory import FileKind
from frazil.maintenance.purge.scrub import info_with, redact_commit
from frazil.maintenance.purge.traces import Ids, readable_ids, snapshots_of
from frazil.maintenance.summaries import (
    COPIES,
    PurgeSummary,
    Remaining,
    mentions_by_repository,
    mentions_by_snapshot,
    put_aside,
)

type Said = Mapping[SnapshotId, tuple[str, dict[str, Json]]]
"""Message and metadata of commits after the purge."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MessagePurgePlan:
    said: Said
    snapshots: tuple[SnapshotId, ...]  # rewritten, under their ids
    listed: bool  # in the entry point, which is rewritten then
    backups: tuple[str, ...]  # keys of the objects, likewise
    remaining: tuple[Remaining, ...]

    @property
    def is_empty(self) -> bool:
        return not (self.snapshots or self.listed or self.backups)

    def summary(self) -> PurgeSummary:
        return PurgeSummary(
            snapshots=[str(each) for each in self.snapshots],
            backups=len(self.backups),
            remaining=list(self.remaining),
        )


def plan_purge_messages(
    repository: Repository,
    commits: Sequence[SnapshotId],
    *,
    replacement: str = REPLACEMENT,
    with_metadata: bool = False,
    executor: Executor | None = None,
) -> MessagePurgePlan:
    """Reads every snapshot and every backup. Raises SnapshotNotFoundError.

    `executor` reads the files: threads by default.
    """
    require_current(repository)
    files, info = quiet_files(repository), repository.repo_info()
    executor = executor or ThreadExecutor(files)
    ids = readable_ids(files, info, FileKind.SNAPSHOT)
    said: dict[SnapshotId, tuple[str, dict[str, Json]]] = {}
    changed, old = [], list[str]()
    for snapshot in _fetch_snapshots(files, ids, commits):
        said[snapshot.id] = redact_commit(snapshot, replacement, with_metadata=with_metadata)
        if said[snapshot.id] != (snapshot.message, snapshot.metadata):
            changed.append(snapshot.id)
            old.append(snapshot.message)
    texts = tuple(text for text in old if text and text != replacement)
    if any(text in replacement for text in texts):
        raise InvalidInputError("the replacement has the message in it")
    look = FindMentions(ids, texts, frozenset(commits)) if texts else None
    found = executor.run(look, len(ids), "reading snapshots") if look is not None else ()
    mentions = [each for part in found for each in part]
    mentions += mentions_by_repository(info, texts)
    backups = RedactBackups(_backups(repository), said, write=False)
    return MessagePurgePlan(
        said=said,
        snapshots=tuple(changed),
        listed=repository.lists_snapshots and info_with(info, said) is not None,
        backups=tuple(_keys(executor, backups, "reading backups")),
        remaining=(*mentions, *put_aside(files), COPIES) if changed else tuple(mentions),
    )


def purge_messages(
    repository: Repository, plan: MessagePurgePlan, executor: Executor | None = None
) -> PurgeSummary:
    repository.writable_session("main")  # raises if nothing may be written
    files = repository.files  # what it remembers must be what is stored now
    quiet = quiet_files(repository)
    for snapshot in plan.snapshots:
        message, metadata = plan.said[snapshot]
        new = replace(quiet.fetch_snapshot(snapshot), message=message, metadata=metadata)
        files.put_snapshot(new)
        files.caches.heads.remember(snapshot, new.head)
    files.store.sync()

    def redact(info: RepoInfo) -> tuple[RepoInfo, UpdateKind]:
        return info_with(info, plan.said) or info, GCRan()

    if plan.listed:
        repository.entry.update(redact, doing="purging messages")
    # Only now: that update has kept a copy of what it replaced.
    backups = RedactBackups(_backups(repository), plan.said, write=True)
    _keys(executor or ThreadExecutor(quiet), backups, "writing backups")
    files.store.sync()
    return plan.summary()


@dataclass(frozen=True, slots=True, eq=False)
class FindMentions:
    """Task: finds messages and metadata of other commits that contain the texts."""

    ids: Ids
    texts: tuple[str, ...]
    commits: frozenset[SnapshotId]  # not asked

    def __call__(self, files: Files, rows: range) -> list[Remaining]:
        return [
            each
            for snapshot in snapshots_of(files, self.ids, rows)
            if snapshot.id not in self.commits
            for each in mentions_by_snapshot(snapshot, self.texts)
        ]


@dataclass(frozen=True, slots=True, eq=False)
class RedactBackups:
    """Keys of the backups in which something must be changed; or it is, if they are written."""

    keys: tuple[str, ...]
    said: Said
    write: bool

    def __call__(self, files: Files, rows: range) -> list[str]:
        keys = self.keys[rows.start : rows.stop]
        changed = files.pool.map(lambda key: self._redact(files, key), keys)
        files.store.sync()
        return [key for key, is_changed in zip(keys, changed, strict=True) if is_changed]

    def _redact(self, files: Files, key: str) -> bool:
        with annotate_errors(key):
            info = info_with(decode_repo_info(files.store.get(key).data), self.said)
        if info is not None and self.write:
            files.store.put(key, encode_repo_info(info))
        return info is not None


def _fetch_snapshots(files: Files, ids: Ids, commits: Sequence[SnapshotId]) -> Iterator[Snapshot]:
    """Raises SnapshotNotFoundError for the first that is not there."""
    there = {raw.tobytes() for raw in ids}
    for commit in dict.fromkeys(commits):
        if commit.raw not in there:
            raise SnapshotNotFoundError(f"snapshot id not found `{commit}`")
        yield files.fetch_snapshot(commit)


def _backups(repository: Repository) -> tuple[str, ...]:
    return tuple(each.key for each in repository.store.list(OVERWRITTEN + REPO_INFO + "."))


def _keys(executor: Executor, work: RedactBackups, doing: str) -> list[str]:
    return [key for part in executor.run(work, len(work.keys), doing) for key in part]
