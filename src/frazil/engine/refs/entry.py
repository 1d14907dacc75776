"""The entry point of a repository: one object, changed by compare-and-swap.

Every change reads the object, works out its successor, keeps a copy of the old version under
`overwritten/`, and replaces the object only if no other client has in the meantime. If one has,
the change is applied again to its result. In a local directory, clients go in turns.
"""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from frazil.clock import Clock, to_datetime
from frazil.dataclass import dataclass
from frazil.engine.files.caches import StoredRepoInfo
from frazil.engine.files.entry_file import no_wait
from frazil.engine.files.files import Files
from frazil.engine.files.object_keys import backup_name, snapshot_key, transaction_key
from frazil.engine.files.settings import Settings
from frazil.engine.refs.refs import MAIN
from frazil.errors import (
    ConflictError,
    FormatError,
    ObjectNotFoundError,
    PreconditionFailedError,
    ReadOnlyError,
    RepositoryNotFoundError,
)
from frazil.flatbuf.flexbuffers import Json
from frazil.format.nodes import Nodes
from frazil.format.repo_info import RepoInfo
from frazil.format.snapshot import Snapshot
from frazil.format.snapshot_infos import SnapshotInfos
from frazil.format.update_log import Availability, RepoInitialized, RepoStatus, Update, UpdateKind
from frazil.ids import INITIAL_SNAPSHOT
from frazil.lazy import lazy_module
from frazil.objectstore.protocol import ObjectStore

if TYPE_CHECKING:
    from frazil.engine.refs import ops_log
    from frazil.format import transaction_log
    from frazil.objectstore.local import local_turns
else:
    transaction_log = lazy_module("frazil.format.transaction_log")
    local_turns = lazy_module("frazil.objectstore.local.local_turns")
    ops_log = lazy_module("frazil.engine.refs.ops_log")

type Change = Callable[[RepoInfo], tuple[RepoInfo, UpdateKind]]
"""The successor of a repo info and what the ops log calls the step; raises to give up."""


_EAGER_TRIES = 5  # a lost race is usually won at the next try: no pause before these
_MERGING_TRIES = 3  # merging takes long, and others may be faster each time: then without


def backoff_s(
    attempt: int, *, base_s: float, cap_s: float, uniform: Callable[[float, float], float]
) -> float:
    """Seconds to wait before try number `attempt`, counted from 0."""
    if attempt <= _EAGER_TRIES:
        return 0.0
    ceiling = min(cap_s, base_s * 2.0 ** (attempt - _EAGER_TRIES))
    return uniform(0.0, ceiling)


def attempts(settings: Settings) -> Iterator[int]:
    """Numbers of tries, each after a pause."""
    for attempt in range(settings.update_tries):
        pause_s = backoff_s(
            attempt,
            base_s=settings.update_backoff_s,
            cap_s=settings.update_backoff_cap_s,
            uniform=random.uniform,
        )
        if pause_s:
            time.sleep(pause_s)
        yield attempt


def attempts_exhausted_error(settings: Settings) -> ConflictError:
    return ConflictError(
        message=f"repository cannot be updated after {settings.update_tries} attempts,"
        " too many concurrent changes",
        kind="update-attempts-exhausted",
    )


class EntryPoint(Protocol):
    """The mutable root of a repository: its refs and, in version 2, its list of snapshots."""

    @property
    def files(self) -> Files: ...

    @property
    def clock(self) -> Clock: ...

    def create(self, *, config: Json | None) -> None:
        """An empty repository. Raises ConflictError if there is one."""
        ...

    def fetch(self) -> RepoInfo:
        """Fetches the current repo info. Raises RepositoryNotFoundError."""
        ...

    def fetch_readable(self) -> tuple[RepoInfo, dict[str, FormatError]]:
        """The entry point without the ref files that cannot be read, and their errors by key."""
        ...

    def fetch_config(self) -> Json | None:
        """Fetches the stored configuration. Raises RepositoryNotFoundError."""
        ...

    def update(
        self,
        change: Change,
        *,
        doing: str,
        even_if_read_only: bool = False,
        ready: Callable[[], None] = no_wait,
        new_page: "ops_log.PageMerge | None" = None,
    ) -> RepoInfo:
        """Applies `change` and returns the repo info that was stored.

        `ready` waits until what the new one refers to is stored, or raises. With `new_page` the
        ops log begins with this entry, and goes on in the copy of what is replaced, or in one
        backup that others are merged into.
        """
        ...


@dataclass(frozen=True, slots=True)
class RepoInfoEntry:
    """The entry point of version 2: one object."""

    files: Files
    clock: Clock

    def create(self, *, config: Json | None) -> None:
        now_us = self.clock()
        with self.files.outgoing() as outgoing:
            outgoing.do(lambda: self.files.put_snapshot(initial_snapshot(now_us)))
            outgoing.do(lambda: self.files.put_log(initial_log()))
        self.files.store.sync()
        try:
            self.files.create_repo_info(initial_repo_info(now_us, config=config))
        except PreconditionFailedError as error:
            raise ConflictError(
                message="another client created a repository here", kind="repo-info-updated"
            ) from error

    def fetch(self) -> RepoInfo:
        with _translate_not_found():
            return self.files.fetch_repo_info().info

    def fetch_readable(self) -> tuple[RepoInfo, dict[str, FormatError]]:
        return self.fetch(), {}

    def fetch_config(self) -> Json | None:
        return self.fetch().config

    def update(
        self,
        change: Change,
        *,
        doing: str,
        even_if_read_only: bool = False,
        ready: Callable[[], None] = no_wait,
        new_page: "ops_log.PageMerge | None" = None,
    ) -> RepoInfo:
        with local_turns.taking_turns(self.files.store.directory) as turn:
            if turn is not None:
                turn.begin()
            return self._update(
                change,
                doing=doing,
                even_if_read_only=even_if_read_only,
                ready=ready,
                new_page=new_page,
                turn=turn,
            )

    def read(self) -> StoredRepoInfo:
        """Fetches the current repo info, for `replace_once`. Raises RepositoryNotFoundError."""
        with _translate_not_found():
            return self.files.fetch_to_replace()

    def replace_once(
        self,
        old: StoredRepoInfo,
        new: RepoInfo,
        kinds: Sequence[UpdateKind],
        *,
        ready: Callable[[], None] = no_wait,
        new_page: "ops_log.PageMerge | None" = None,
    ) -> "RepoInfo | ops_log.RefusedUpdate":
        """Puts `new`, computed from `old`, in its place; each kind is an entry of the ops log.

        Tries once, and returns what was stored. The last of `kinds` names the update if it is
        refused; whether it was stored all the same, only the ops log can tell (`was_done`). `ready`
        and `new_page` as in `update`.
        """
        now_us = self.clock()
        backups = [backup_name(now_us)]
        page_size = self.files.settings.updates_per_file if new_page is None else 1
        new = ops_log.record(new, *kinds, now_us=now_us, backup=backups[0], page_size=page_size)
        if new_page is not None and (merged := new_page.merge(old.info)) is not None:
            # The one with the whole log is listed first: a repair restores that.
            backups.append(backup_name(now_us + 1000))
            self.files.put_backup(backups[1], merged)
            new = replace(new, before_updates=backups[1])
        try:
            self.files.replace_repo_info(old, new, backup=backups[0], ready=ready)
        except PreconditionFailedError:
            return ops_log.RefusedUpdate(new, kinds[-1], tuple(backups))
        return new

    def _update(
        self,
        change: Change,
        *,
        doing: str,
        even_if_read_only: bool,
        ready: Callable[[], None],
        new_page: "ops_log.PageMerge | None",
        turn: "local_turns.Turn | None",
    ) -> RepoInfo:
        settings = self.files.settings
        refused: ops_log.RefusedUpdate | None = None
        for attempt in attempts(settings):
            if attempt and turn is not None:
                turn.wait()
            old = self.read()
            if refused is not None and self.was_done(old.info, refused):
                return refused.info
            if not even_if_read_only:
                require_online(old.info, doing=doing)
            new, kind = change(old.info)
            if new_page is not None and attempt == _MERGING_TRIES:
                new_page = replace(new_page, max_entries=0)
            result = self.replace_once(old, new, [kind], ready=ready, new_page=new_page)
            if not isinstance(result, ops_log.RefusedUpdate):
                return result
            refused = result
        if refused is not None and self.was_done(self.fetch(), refused):
            return refused.info
        raise attempts_exhausted_error(settings)

    def was_done(self, info: RepoInfo, refused: "ops_log.RefusedUpdate") -> bool:
        """True if a refused update is part of `info` all the same; if not, its backups go.

        Where the ops log does not tell, they stay: the log may need them.
        """
        done = ops_log.was_stored(info, refused=refused, fetch_page=self.files.fetch_log_page)
        if done is False:
            self.files.drop_backups(refused.backups)
        return bool(done)


@contextmanager
def _translate_not_found() -> Iterator[None]:
    """Raises RepositoryNotFoundError if the entry point does not exist."""
    try:
        yield
    except ObjectNotFoundError as error:
        raise RepositoryNotFoundError("the repository doesn't exist") from error


def require_online(info: RepoInfo, *, doing: str) -> None:
    status = info.status
    if status.availability is not Availability.ONLINE:
        raise ReadOnlyError(
            f"the repository status is {status.availability.label}: {doing} is not possible;"
            f" set at {to_datetime(status.set_at_us).isoformat()}, reason: {status.reason!r}",
            kind="read-only-repository",
        )


_MESSAGE = "Repository initialized"
_METADATA: dict[str, Json] = {"__icechunk": {"is_root": True}}


def is_clean(store: ObjectStore) -> bool:
    """True if a repository may be created: the store is empty, or holds the leftovers of a process
    that died while it created one. Both files are rewritten, under the same names.
    """
    leftovers = {snapshot_key(INITIAL_SNAPSHOT), transaction_key(INITIAL_SNAPSHOT)}
    return all(info.key in leftovers for info in store.list())


def initial_snapshot(now_us: int) -> Snapshot:
    """No nodes, not even a root group."""
    return Snapshot(
        id=INITIAL_SNAPSHOT,
        parent_id=None,
        flushed_at_us=now_us,
        message=_MESSAGE,
        metadata=_METADATA,
        manifest_files=(),
        nodes=Nodes.empty(),
    )


def initial_log() -> "transaction_log.TransactionLog":
    return transaction_log.TransactionLog(id=INITIAL_SNAPSHOT)


def initial_repo_info(now_us: int, *, config: Json) -> RepoInfo:
    info = RepoInfo(
        spec_version=2,
        tags={},
        branches={},
        deleted_tags=(),
        snapshots=SnapshotInfos.empty(),
        status=RepoStatus(availability=Availability.ONLINE, set_at_us=now_us, reason=None),
        metadata={},
        updates=(Update(kind=RepoInitialized(), updated_at_us=now_us, backup_path=None),),
        before_updates=None,
        config=config,
        enabled_flags=(),
        disabled_flags=(),
    )
    info = info.with_snapshot(
        INITIAL_SNAPSHOT, parent=None, flushed_at_us=now_us, message=_MESSAGE, metadata=_METADATA
    )
    return info.with_branch(MAIN, INITIAL_SNAPSHOT)
