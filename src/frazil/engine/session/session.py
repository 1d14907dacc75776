"""A view of one snapshot, and the changes being made to it.

Reading looks at the pending changes first and at the committed snapshot second. Chunk bytes are
stored as they are written; everything else stays in memory until the commit.
"""

import os
import pickle
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from frazil.clock import Clock
from frazil.engine.changes.change_set import ChangeSet, plan_move
from frazil.engine.files.files import Files
from frazil.engine.refs.commit_metadata import carry_over_notes, require_json
from frazil.engine.refs.entries import files_of
from frazil.engine.refs.entry import EntryPoint
from frazil.engine.refs.repo_settings import commits_in_groups, require_version_2
from frazil.engine.session.session_chunks import SessionChunks
from frazil.engine.session.session_state import SessionMode
from frazil.errors import (
    AlreadyExistsError,
    ConflictError,
    IcechunkError,
    InvalidInputError,
    NodeNotFoundError,
    SessionStateError,
)
from frazil.flatbuf.flexbuffers import Json
from frazil.format.nodes import ArrayData, Node
from frazil.format.snapshot import Snapshot
from frazil.ids import SnapshotId
from frazil.lazy import lazy_module
from frazil.paths import ROOT, NodePath

if TYPE_CHECKING:
    from frazil.engine.changes import diff as diffs
    from frazil.engine.changes import zarr_metadata
    from frazil.engine.commit import commit as commits
    from frazil.engine.group import group_commit
    from frazil.engine.merge import rebase
    from frazil.engine.merge.solver import Policy
    from frazil.engine.refs import waiting
else:  # readers need none of them
    commits = lazy_module("frazil.engine.commit.commit")
    group_commit = lazy_module("frazil.engine.group.group_commit")
    rebase = lazy_module("frazil.engine.merge.rebase")
    waiting = lazy_module("frazil.engine.refs.waiting")
    diffs = lazy_module("frazil.engine.changes.diff")
    zarr_metadata = lazy_module("frazil.engine.changes.zarr_metadata")

__all__ = ["Session", "SessionMode", "reopen"]


class Session(SessionChunks):
    """Safe to use from several threads. After its commit it is read-only, at the new snapshot."""

    def __reduce__(self) -> tuple[object, ...]:
        if not self.read_only:
            raise ValueError(
                "You must opt-in to pickle writable sessions in a distributed context using"
                " Session.fork(): a writable session cannot be pickled, as changes made to the"
                " copy would be lost. Merge the fork that comes back (Session.merge)"
            )
        if self._opening is None:
            self._opening = pickle.dumps((self.files.raw_store, self.files.settings, self.clock))
        return reopen, (self._opening, self.snapshot_id)

    def pickle_as(self, opening: bytes) -> None:
        """The bytes it was unpickled from: equal ones are opened once."""
        self._opening = opening

    # Nodes

    def find_node(self, path: NodePath) -> Node | None:
        with self._state:
            return self._changes.find_node(path)

    def node(self, path: NodePath) -> Node:
        node = self.find_node(path)
        if node is None:
            raise NodeNotFoundError(f"node not found at `{path}`")
        return node

    def nodes(self, under: NodePath = ROOT) -> Iterator[Node]:
        """Yields the node at `under`, if it exists, and all below it, by path, as of now."""
        with self._state:
            return iter(list(self._changes.nodes(under)))

    def child_names(self, path: NodePath) -> list[str]:
        with self._state:
            return self._changes.child_names(path)

    def set_node(self, path: NodePath, user_data: bytes) -> None:
        """Creates the node, or gives it other metadata; equal bytes change nothing."""
        version = self.files.settings.spec_version
        found = zarr_metadata.parse_node_metadata(user_data, only_regular=version < 2)
        user_data = self.files.as_stored(user_data)
        with self._editing() as changes:
            old = changes.find_node(path)
            if old is not None and old.user_data == user_data:
                return
            if old is None:
                _require_no_array_above(changes, path)
            array = None
            if isinstance(found, zarr_metadata.ArrayMetadata):
                array = ArrayData(
                    shape=found.shape,
                    num_chunks=found.num_chunks,
                    dimension_names=found.dimension_names,
                    manifests=() if old is None or old.array is None else old.array.manifests,
                )
            if old is not None and (old.array is None) != (array is None):
                kind = "a group" if old.array is None else "an array"
                raise AlreadyExistsError(
                    f"node already exists at `{path}`: it is {kind}, delete it first"
                )
            node_id = self.files.new_node_id(changes.has_id) if old is None else old.id
            changes.put_node(Node(id=node_id, path=path, user_data=user_data, array=array))

    def set_node_if_absent(self, path: NodePath, user_data: bytes) -> bool:
        """True if the node was created; of several concurrent calls one succeeds."""
        with self._editing() as changes:
            if changes.find_node(path) is not None:
                return False
            self.set_node(path, user_data)
            return True

    def delete_node(self, path: NodePath) -> None:
        """Deletes the node and everything below it; does nothing if there is no such node."""
        with self._editing() as changes:
            if changes.find_node(path) is not None:
                changes.delete_nodes(path)

    def move(self, source: NodePath, target: NodePath) -> None:
        """Gives a node another path, with everything below it; only while rearranging."""
        with self._writing, self._state:
            require_version_2(self.files.settings.spec_version)
            plan = plan_move(self._changes, source, target)
            self._require_not_read_only()
            if not self._rearranges:
                raise SessionStateError(
                    "To move nodes in the hierarchy you need to create a rearrange session"
                    " (Repository.rearrange_session): commit or abandon this one",
                    kind="non-rearrange-session",
                )
            self._changes.relocate(plan)

    # Transactions: these keep others from writing, not from reading, while they wait for storage

    def commit(
        self,
        message: str,
        metadata: Mapping[str, Json] | None = None,
        *,
        allow_empty: bool = False,
        rebasing: "rebase.Rebasing | None" = None,
        relies_on: tuple[SnapshotId, ...] = (),
    ) -> SnapshotId:
        """Makes the changes the new tip of the branch.

        If the branch has moved since the session began, the changes are rebased, or if that is
        not wanted ConflictError is raised; the session and its changes stay as they are then.
        `relies_on` are other snapshots whose chunks the changes refer to: they must still be there.
        """
        given = self._commit_metadata(metadata)
        with self._writing:
            self._require_to_commit(allow_empty=allow_empty)
            if rebasing is None:
                return self._conclude(commits.commit, message, given, relies_on)
            written: commits.Written = {}

            def attempt(attempts: int) -> SnapshotId:
                noted = rebase.with_attempts(given, attempts)
                return self._conclude(
                    commits.commit, message, noted, relies_on, written, is_checked=attempts > 0
                )

            if rebasing.tries and not relies_on and self._may_commit_in_group():
                made = self._commit_in_group(attempt, message, given, rebasing.tries)
                if made is not None:
                    return made
            wait = waiting.waiting_for(self.files)
            return rebase.commit_rebasing(attempt, self.rebase, rebasing, wait)

    def amend(
        self,
        message: str,
        metadata: Mapping[str, Json] | None = None,
        *,
        allow_empty: bool = False,
    ) -> SnapshotId:
        """Puts a snapshot with these changes too in the place of the branch's tip."""
        require_version_2(self.files.settings.spec_version)
        given = self._commit_metadata(metadata)
        with self._writing:
            self._require_to_commit(allow_empty=allow_empty)
            notes = carry_over_notes(self._base.metadata, given)
            return self._conclude(commits.amend, message, notes)

    def flush(self, message: str, metadata: Mapping[str, Json] | None = None) -> SnapshotId:
        """Makes the changes a snapshot, and leaves the branch where it is."""
        given = self._commit_metadata(metadata)
        with self._writing:
            self._require_to_commit(allow_empty=True)
            return self._conclude(commits.flush, message, given)

    def rebase(self, policy: "Policy") -> None:
        """Carries the changes over what was committed since; as far as it got, if it fails."""
        with self._writing:
            branch = self._require_to_commit(allow_empty=True)
            changes = rebase.expand_attached(self.files, self.copy_changes())
            start = rebase.Position(self._base, changes)
            for reached in rebase.replay(self.files, self._entry.fetch(), branch, start, policy):
                self._be_at(reached.base, reached.changes.copy())

    def revise(self, revision: Callable[[ChangeSet], ChangeSet]) -> None:
        """Replaces the changes by what `revision` makes of them; if it raises, they stay."""
        with self._writing:
            self._require_writable()
            self._be_at(self._base, revision(self.copy_changes()))

    def discard_changes(self) -> None:
        with self._writing:
            self._require_not_read_only()
            self._be_at(self._base, ChangeSet(self._base.nodes))

    def status(self) -> "diffs.Diff":
        """The changes that a commit would record."""
        snapshot, changes = self.moment()
        gone = changes.deleted.values()
        path_of = diffs.paths_in((n for n in changes.edited.values() if n is not None), gone)
        log = commits.transaction_log(snapshot, changes)
        return diffs.summarise([log], lambda node_id: path_of(node_id) or changes.path_of(node_id))

    # Shared parts

    def _commit_metadata(self, metadata: Mapping[str, Json] | None) -> dict[str, Json]:
        return require_json({**self._default_metadata, **(metadata or {})})

    def _require_to_commit(self, *, allow_empty: bool) -> str:
        """The branch."""
        if self._branch is None:
            raise SessionStateError(
                "commits are not allowed on read-only or forked sessions:"
                " merge a fork into the session it was made of",
                kind="commit-not-allowed",
            )
        if not allow_empty and not self.has_uncommitted_changes:
            raise SessionStateError(
                "cannot commit, no changes made to the session"
                " (use `allow_empty=True` to commit anyway)",
                kind="no-changes-to-commit",
            )
        return self._branch

    def _conclude(
        self,
        write: Callable[[Files, EntryPoint, "commits.CommitRequest"], Snapshot],
        message: str,
        metadata: Mapping[str, Json],
        relies_on: tuple[SnapshotId, ...] = (),
        written: "commits.Written | None" = None,
        *,
        is_checked: bool = False,
    ) -> SnapshotId:
        """Read-only from then on, at the new snapshot."""
        request = commits.CommitRequest(
            branch=self._require_to_commit(allow_empty=True),
            base=self._base,
            changes=self._settled_changes(),
            message=message,
            metadata=metadata,
            rearranges=self._rearranges,
            relies_on=relies_on,
            written=written,
            is_checked=is_checked,
        )
        snapshot = write(self.files, self._entry, request)
        with self._state:
            self._be_at(snapshot, ChangeSet(snapshot.nodes))
            self._branch = None
        return snapshot.id

    def _may_commit_in_group(self) -> bool:
        info = self.files.newest_repo_info
        return info is not None and commits_in_groups(info) and group_commit.is_possible(self.files)

    def _commit_in_group(
        self,
        attempt: Callable[[int], SnapshotId],
        message: str,
        metadata: Mapping[str, Json],
        tries: int,
    ) -> SnapshotId | None:
        """Tries alone, unless others were met of late, and stages the commit if it loses.

        None if it was not made, and has to be made as without a group.
        """
        branch, pace = self._require_to_commit(allow_empty=True), self.files.group_pace
        if not group_commit.should_stage(pace):
            try:
                group_commit.look_for_others(self.files, branch)
                return attempt(0)
            except ConflictError as error:
                if error.kind != "commit-conflict":
                    raise
                group_commit.meet_others(pace)
        staged = group_commit.stage(
            self.files,
            self.clock,
            branch=branch,
            base=self._base.id,
            changes=self._settled_changes(),
            message=message,
            metadata=rebase.with_attempts(metadata, 1),
            tries=tries,
        )
        if staged is None:
            return None
        try:
            return staged.commit()
        finally:  # an interrupted one may have been made as well
            if staged.made is not None:
                self._branch = None
                try:
                    snapshot = self.files.fetch_snapshot(staged.made)
                except IcechunkError as failure:
                    failure.add_note(f"the commit was made: snapshot {staged.made}")
                    raise
                self._be_at(snapshot, ChangeSet(snapshot.nodes))

    def _settled_changes(self) -> ChangeSet:
        """A copy of the changes with all chunks as columns, which the session keeps as well.

        The copy is not shared: readers of the session go on caching the nodes they look up.
        """
        changes = self.copy_changes()
        for pending in changes.chunks.values():
            pending.changes()  # the work of a moment for a million chunks: not while others wait
        self._be_at(self._base, changes)
        return changes.copy()

    def _be_at(self, base: Snapshot, changes: ChangeSet) -> None:
        with self._state:
            self._base, self._changes = base, changes
            self._edits += 1


def reopen(opening: bytes, snapshot: SnapshotId) -> Session:
    """A read-only session, as it was before it was pickled."""
    files, clock = _open_files(opening, os.getpid())
    session = Session(files, clock, files.fetch_snapshot(snapshot))
    session.pickle_as(opening)
    return session


@lru_cache(maxsize=4)
def _open_files(opening: bytes, process: int) -> tuple[Files, Clock]:
    """Once in each process: a worker gets a copy of a session with every task."""
    del process  # a forked child must not use its parent's threads, so it is part of the key
    store, settings, clock = pickle.loads(opening)  # noqa: S301 -- from a pickle
    return files_of(store, settings), clock


def _require_no_array_above(changes: ChangeSet, path: NodePath) -> None:
    for above in path.ancestors:
        node = changes.find_node(above)
        if node is not None and node.array is not None:
            raise InvalidInputError(
                f"cannot create `{path}`: `{above}` is an array", kind="not-a-group"
            )
