"""A repository, with Icechunk's names and signatures."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from itertools import repeat
from typing import Any

from frazil.api.collecting import CollectedRepository
from frazil.api.conflicts import ConflictSolver
from frazil.api.migrating import MigratedRepository
from frazil.api.moving import MovedRepository
from frazil.api.opening import OpenedRepository
from frazil.api.rewriting import RewritingRepository
from frazil.api.session import IcechunkStore, Session
from frazil.api.updates import Update, entries
from frazil.api.values import Diff, ManifestFileInfo, SnapshotInfo
from frazil.api.verifying import VerifiedRepository
from frazil.api.versions import require_version
from frazil.ids import SnapshotId
from frazil.repo import history
from frazil.repo.history import SnapshotBlock, SnapshotList
from frazil.repo.version import resolve
from frazil.zarrstore.store import AsyncCloseableIterator
from frazil.zarrstore.virtual_listing import VirtualChunkTable


class Repository(
    OpenedRepository,
    CollectedRepository,
    RewritingRepository,
    MovedRepository,
    MigratedRepository,
    VerifiedRepository,
):
    """Versions of one Zarr hierarchy. Made by `create`, `open` or `open_or_create`.

    Every method that reads or writes storage has a twin named `..._async`, which does the same on
    a thread.
    """

    def __repr__(self) -> str:
        return f"Repository(storage={self._storage!r}, config={self.config!r})"

    # Sessions

    def readonly_session(
        self,
        branch: str | None = None,
        *,
        tag: str | None = None,
        snapshot_id: str | None = None,
        as_of: datetime | None = None,
    ) -> Session:
        """A session at the tip of a branch, at a tag or at a snapshot: exactly one of them.

        With `as_of`, at the newest snapshot of the branch's history that is not younger.
        """
        version = require_version(branch=branch, tag=tag, snapshot_id=snapshot_id, as_of=as_of)
        return Session(self._engine.readonly_session(version), self._engine.config)

    async def readonly_session_async(
        self,
        branch: str | None = None,
        *,
        tag: str | None = None,
        snapshot_id: str | None = None,
        as_of: datetime | None = None,
    ) -> Session:
        return await asyncio.to_thread(
            self.readonly_session, branch, tag=tag, snapshot_id=snapshot_id, as_of=as_of
        )

    def writable_session(self, branch: str) -> Session:
        return Session(self._engine.writable_session(branch), self._engine.config)

    async def writable_session_async(self, branch: str) -> Session:
        return await asyncio.to_thread(self.writable_session, branch)

    def rearrange_session(self, branch: str) -> Session:
        """A session that can move nodes (`Session.move`), and do nothing else."""
        return Session(self._engine.rearrange_session(branch), self._engine.config)

    async def rearrange_session_async(self, branch: str) -> Session:
        return await asyncio.to_thread(self.rearrange_session, branch)

    def virtual_chunks(
        self,
        branch: str | None = None,
        *,
        tag: str | None = None,
        snapshot_id: str | None = None,
        prefix: str | None = None,
        path: str = "/",
    ) -> VirtualChunkTable:
        """Where the virtual chunks of one version are; see `Session.virtual_chunks`."""
        session = self.readonly_session(branch, tag=tag, snapshot_id=snapshot_id)
        return session.virtual_chunks(prefix=prefix, path=path)

    async def virtual_chunks_async(
        self,
        branch: str | None = None,
        *,
        tag: str | None = None,
        snapshot_id: str | None = None,
        prefix: str | None = None,
        path: str = "/",
    ) -> VirtualChunkTable:
        return await asyncio.to_thread(
            self.virtual_chunks,
            branch,
            tag=tag,
            snapshot_id=snapshot_id,
            prefix=prefix,
            path=path,
        )

    @contextmanager
    def transaction(
        self,
        branch: str,
        *,
        message: str,
        metadata: dict[str, Any] | None = None,
        rebase_with: ConflictSolver | None = None,
        rebase_tries: int = 1_000,
    ) -> Iterator[IcechunkStore]:
        """A store whose changes are committed when the block ends, unless it ends by an error."""
        session = self.writable_session(branch)
        yield session.store
        session.commit(message, metadata, rebase_with=rebase_with, rebase_tries=rebase_tries)

    # Branches and tags

    def create_branch(self, branch: str, snapshot_id: str) -> None:
        self._engine.create_branch(branch, SnapshotId.parse(snapshot_id))

    async def create_branch_async(self, branch: str, snapshot_id: str) -> None:
        await asyncio.to_thread(self.create_branch, branch, snapshot_id)

    def list_branches(self) -> set[str]:
        return set(self._engine.branches())

    async def list_branches_async(self) -> set[str]:
        return await asyncio.to_thread(self.list_branches)

    def lookup_branch(self, branch: str) -> str:
        """Id of the snapshot at the tip."""
        return str(self._engine.lookup_branch(branch))

    async def lookup_branch_async(self, branch: str) -> str:
        return await asyncio.to_thread(self.lookup_branch, branch)

    def reset_branch(
        self, branch: str, snapshot_id: str, *, from_snapshot_id: str | None = None
    ) -> None:
        """Moves the tip; if `from_snapshot_id` is given, only from there."""
        self._engine.reset_branch(
            branch,
            SnapshotId.parse(snapshot_id),
            expected=None if from_snapshot_id is None else SnapshotId.parse(from_snapshot_id),
        )

    async def reset_branch_async(
        self, branch: str, snapshot_id: str, *, from_snapshot_id: str | None = None
    ) -> None:
        await asyncio.to_thread(
            self.reset_branch, branch, snapshot_id, from_snapshot_id=from_snapshot_id
        )

    def delete_branch(self, branch: str) -> None:
        self._engine.delete_branch(branch)

    async def delete_branch_async(self, branch: str) -> None:
        await asyncio.to_thread(self.delete_branch, branch)

    def create_tag(self, tag: str, snapshot_id: str) -> None:
        self._engine.create_tag(tag, SnapshotId.parse(snapshot_id))

    async def create_tag_async(self, tag: str, snapshot_id: str) -> None:
        await asyncio.to_thread(self.create_tag, tag, snapshot_id)

    def list_tags(self) -> set[str]:
        return set(self._engine.tags())

    async def list_tags_async(self) -> set[str]:
        return await asyncio.to_thread(self.list_tags)

    def lookup_tag(self, tag: str) -> str:
        """Id of the tagged snapshot."""
        return str(self._engine.lookup_tag(tag))

    async def lookup_tag_async(self, tag: str) -> str:
        return await asyncio.to_thread(self.lookup_tag, tag)

    def delete_tag(self, tag: str) -> None:
        """For good: the name cannot be used again."""
        self._engine.delete_tag(tag)

    async def delete_tag_async(self, tag: str) -> None:
        await asyncio.to_thread(self.delete_tag, tag)

    # History

    def lookup_snapshot(self, snapshot_id: str) -> SnapshotInfo:
        found = self._engine.lookup_snapshot(SnapshotId.parse(snapshot_id))
        return SnapshotInfo(SnapshotList.of(found), 0)

    async def lookup_snapshot_async(self, snapshot_id: str) -> SnapshotInfo:
        return await asyncio.to_thread(self.lookup_snapshot, snapshot_id)

    def ancestry(
        self,
        *,
        branch: str | None = None,
        tag: str | None = None,
        snapshot_id: str | None = None,
    ) -> AsyncCloseableIterator[SnapshotInfo]:
        """The snapshot and those before it, newest first, for `for` or `async for`."""
        version = require_version(branch=branch, tag=tag, snapshot_id=snapshot_id)
        return _snapshots(self._engine.ancestry_blocks(version))

    def async_ancestry(
        self,
        *,
        branch: str | None = None,
        tag: str | None = None,
        snapshot_id: str | None = None,
    ) -> AsyncCloseableIterator[SnapshotInfo]:
        """As `ancestry`, with nothing read before the first snapshot is asked for."""
        version = require_version(branch=branch, tag=tag, snapshot_id=snapshot_id)
        return _snapshots(_later(lambda: self._engine.ancestry_blocks(version)))

    def ops_log(self) -> AsyncCloseableIterator[Update]:
        """Everything that was done to the repository, newest first, for `for` or `async for`."""
        return AsyncCloseableIterator(map(entries, self._engine.ops_log_pages()))

    def ops_log_async(self) -> AsyncCloseableIterator[Update]:
        """As `ops_log`, with nothing read before the first entry is asked for."""
        return AsyncCloseableIterator(map(entries, _later(self._engine.ops_log_pages)))

    def list_manifest_files(self, snapshot_id: str) -> list[ManifestFileInfo]:
        found = self._engine.manifest_files(SnapshotId.parse(snapshot_id))
        return [ManifestFileInfo.of(file) for file in found]

    async def list_manifest_files_async(self, snapshot_id: str) -> list[ManifestFileInfo]:
        return await asyncio.to_thread(self.list_manifest_files, snapshot_id)

    def diff(
        self,
        *,
        from_branch: str | None = None,
        from_tag: str | None = None,
        from_snapshot_id: str | None = None,
        to_branch: str | None = None,
        to_tag: str | None = None,
        to_snapshot_id: str | None = None,
    ) -> Diff:
        """What changed from one snapshot to a later one; one `from_` and one `to_` are needed."""
        start = require_version(branch=from_branch, tag=from_tag, snapshot_id=from_snapshot_id)
        end = require_version(branch=to_branch, tag=to_tag, snapshot_id=to_snapshot_id)
        info = self._engine.repo_info()
        first, last = (history.snapshot_id(info, resolve(info, one)) for one in (start, end))
        return Diff.of(self._engine.diff(first, last))

    async def diff_async(
        self,
        *,
        from_branch: str | None = None,
        from_tag: str | None = None,
        from_snapshot_id: str | None = None,
        to_branch: str | None = None,
        to_tag: str | None = None,
        to_snapshot_id: str | None = None,
    ) -> Diff:
        return await asyncio.to_thread(
            self.diff,
            from_branch=from_branch,
            from_tag=from_tag,
            from_snapshot_id=from_snapshot_id,
            to_branch=to_branch,
            to_tag=to_tag,
            to_snapshot_id=to_snapshot_id,
        )


def _snapshots(
    blocks: Iterable[tuple[SnapshotBlock, int]],
) -> AsyncCloseableIterator[SnapshotInfo]:
    return AsyncCloseableIterator(
        map(SnapshotInfo, repeat(block), range(size)) for block, size in blocks
    )


def _later[T](work: Callable[[], Iterator[T]]) -> Iterator[T]:
    yield from work()
