"""Messages of commits, taken out of all history: of snapshots, the entry point and its backups.

Snapshots keep their ids. In version 2 the ops log calls it a run of garbage collection: of the
kinds of updates that the format has, that is the one for lists of snapshots being put in order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from frazil.assets.files import Files, naming
from frazil.assets.layout import OVERWRITTEN, REPO_INFO
from frazil.errors import InvalidInputError, SnapshotNotFoundError
from frazil.flatbuf.flexbuffers import Json
from frazil.format.repo_info import RepoInfo, decode_repo_info, encode_repo_info
from frazil.format.updates import GCRan, UpdateKind
from frazil.ids import SnapshotId
from frazil.maintenance.purge.history import stored_snapshots
from frazil.maintenance.purge.remaining import (
    ELSEWHERE,
    Remaining,
    mentions_by_repository,
    mentions_by_snapshot,
    put_aside,
)
from frazil.maintenance.purge.scrub import info_with, redacted
from frazil.maintenance.quiet_files import quiet_files, require_current
from frazil.repo.repository import Repository

REPLACEMENT = "(redacted)"

type Said = Mapping[SnapshotId, tuple[str, dict[str, Json]]]
"""What commits are left with: message and metadata."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MessagePurgePlan:
    said: Said
    snapshots: tuple[SnapshotId, ...]  # written anew, under their ids
    listed: bool  # in the entry point, which is written anew then
    backups: tuple[str, ...]  # keys of the objects, likewise
    remaining: tuple[Remaining, ...]

    @property
    def is_empty(self) -> bool:
        return not (self.snapshots or self.listed or self.backups)


def plan_purge_messages(
    repository: Repository,
    commits: Sequence[SnapshotId],
    *,
    replacement: str = REPLACEMENT,
    with_metadata: bool = False,
) -> MessagePurgePlan:
    """Reads every snapshot and every backup. Raises SnapshotNotFoundError."""
    require_current(repository)
    files, info = quiet_files(repository), repository.repo_info()
    said: dict[SnapshotId, tuple[str, dict[str, Json]]] = {}
    changed, old, others = [], list[str](), []
    for snapshot in stored_snapshots(files):
        if snapshot.id in commits:
            new = redacted(snapshot, replacement, with_metadata=with_metadata)
            said[snapshot.id] = new
            if new != (snapshot.message, snapshot.metadata):
                changed.append(snapshot.id)
                old.append(snapshot.message)
        else:
            others.append(replace(snapshot, manifest_files=(), nodes=snapshot.nodes.empty()))
    for missing in set(commits) - said.keys():
        raise SnapshotNotFoundError(f"snapshot id not found `{missing}`")
    texts = [text for text in old if text and text != replacement]
    if any(text in replacement for text in texts):
        raise InvalidInputError("the replacement has the message in it")
    mentions = [each for other in others for each in mentions_by_snapshot(other, texts)]
    mentions += mentions_by_repository(info, texts)
    return MessagePurgePlan(
        said=said,
        snapshots=tuple(changed),
        listed=repository.spec_version > 1 and info_with(info, said) is not None,
        backups=tuple(_changed_backups(files, said)),
        remaining=(*mentions, *put_aside(files), ELSEWHERE) if changed else tuple(mentions),
    )


def purge_messages(repository: Repository, plan: MessagePurgePlan) -> None:
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
    for key, data in _changed_backups(quiet, plan.said).items():
        files.store.put(key, data)
    files.store.sync()


def _changed_backups(files: Files, said: Said) -> dict[str, bytes]:
    """By key, the backups in which something must be changed, as they are to be."""
    keys = [each.key for each in files.store.list(OVERWRITTEN + REPO_INFO + ".")]

    def change(key: str) -> bytes | None:
        with naming(key):
            info = info_with(decode_repo_info(files.store.get(key).data), said)
        return None if info is None else encode_repo_info(info)

    found = zip(keys, files.pool.map(change, keys), strict=True)
    return {key: data for key, data in found if data is not None}
