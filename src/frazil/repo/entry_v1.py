"""The entry point of a version 1 repository: a small file for each branch and tag.

    refs/branch.NAME/ref.json          replaced by compare-and-swap
    refs/tag.NAME/ref.json             created once, never changed
    refs/tag.NAME/ref.json.deleted     the tag is deleted, and its name used up
    config.yaml                        only if it is not the default

To all other modules these look like a repo info: what it lists is read from the files when it is
asked for (see refs_v1), and what a step changes in it is written to the one file that the step is
about.

Stores delete unconditionally. A commit that was stored just before the branch is deleted goes with
it, as in version 2, where the deletion is applied again to the result of the commit; one that comes
after is refused, and does not bring the branch back.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from frazil.assets.entry_file import create_entry, move_ref, nothing, replace_entry
from frazil.assets.files import Files, naming
from frazil.assets.layout import (
    CONFIG_YAML,
    OVERWRITTEN,
    REPO_INFO,
    V1_MAIN_BRANCH,
    backup_name,
    branch_key,
    tag_key,
    tombstone_key,
)
from frazil.clock import Clock
from frazil.errors import (
    AlreadyExistsError,
    ConflictError,
    FormatError,
    ObjectNotFoundError,
    PreconditionFailedError,
    RepositoryNotFoundError,
)
from frazil.flatbuf.flexbuffers import Json
from frazil.format.config_codec import decode_config_yaml, encode_config_yaml
from frazil.format.ref_file import encode_ref
from frazil.format.repo_info import RepoInfo
from frazil.format.update_log import (
    BranchCreated,
    BranchDeleted,
    BranchReset,
    ConfigChanged,
    NewCommit,
    NewDetachedSnapshot,
    TagCreated,
    TagDeleted,
    UpdateKind,
)
from frazil.ids import INITIAL_SNAPSHOT, SnapshotId
from frazil.repo.entry import Change, exhausted, initial_snapshot, tries
from frazil.repo.ops_log import was_committed
from frazil.repo.refs import MAIN
from frazil.repo.refs_v1 import RefReader, find_branch, require_name
from frazil.repo.repo_settings import unsupported


@dataclass(frozen=True, slots=True)
class RefFilesEntry:
    files: Files
    clock: Clock

    def create(self, *, config: Json | None) -> None:
        self.files.put_snapshot(initial_snapshot(self.clock()))
        self.files.store.sync()
        try:
            self._create_ref(branch_key(MAIN), INITIAL_SNAPSHOT)
        except PreconditionFailedError as error:
            raise ConflictError(
                message="another client created a repository here", kind="branch-update-conflict"
            ) from error
        if config is not None:
            self._replace_config(config)
            self.files.store.sync()

    def fetch(self) -> RepoInfo:
        return RefReader(self.files).info

    def fetch_readable(self) -> tuple[RepoInfo, dict[str, FormatError]]:
        return self.fetch(), {}

    def fetch_config(self) -> Json | None:
        try:
            self.files.store.head(V1_MAIN_BRANCH)
        except ObjectNotFoundError as error:
            raise RepositoryNotFoundError("the repository doesn't exist") from error
        try:
            data = self.files.store.get(CONFIG_YAML).data
        except ObjectNotFoundError:
            return None
        with naming(CONFIG_YAML):
            return decode_config_yaml(data)

    def update(
        self,
        change: Change,
        *,
        doing: str,
        even_if_read_only: bool = False,
        ready: Callable[[], None] = nothing,
    ) -> RepoInfo:
        """Applies `change` and returns what it made; version 1 has no ops log."""
        del doing, even_if_read_only  # version 1 has no status
        for _ in tries(self.files.settings):
            self._require_not_migrated()
            old = RefReader(self.files)
            with _as_version_1_names_it():
                new, kind = change(old.info)
            ready()
            self.files.store.sync()  # what a ref is about to point to
            try:
                self._write(old, new, kind)
            except PreconditionFailedError:
                if not self._was_done(old, kind):
                    continue
            self._require_not_lost(kind)
            return new
        raise exhausted(self.files.settings)

    def _was_done(self, old: RefReader, kind: UpdateKind) -> bool:
        """True if a refused commit was stored: its reply lost, and others on top of it since."""
        if not isinstance(kind, NewCommit):
            return False
        ref = find_branch(self.files, kind.branch)
        return was_committed(
            kind.new,
            parent=old.branches[kind.branch].snapshot,
            tip=None if ref is None else ref.snapshot,
            parent_of=self._parent_of,
        )

    def _parent_of(self, snapshot: SnapshotId) -> SnapshotId | None:
        try:
            return self.files.fetch_head(snapshot).parent_id
        except ObjectNotFoundError:  # readers of that history get the error
            return None

    # Writing

    def _write(self, old: RefReader, new: RepoInfo, kind: UpdateKind) -> None:
        """Raises PreconditionFailedError if another client was faster."""
        match kind:
            case NewCommit(name, _) | BranchReset(name, _):
                data = encode_ref(_target(new, name))
                move_ref(self.files.store, branch_key(name), old.branches[name].version, data)
            case BranchCreated(name):
                self._create_ref(branch_key(name), _target(new, name))
            case BranchDeleted(name):
                self.files.store.delete([branch_key(name)])
                self.files.store.sync()
            case TagCreated(name):
                require_name(name)
                self._create_ref(tag_key(name), new.snapshots.id(new.tags[name]))
            case TagDeleted(name):
                create_entry(self.files.store, tombstone_key(name), b"")
            case ConfigChanged():
                self._replace_config(new.config)
            case NewDetachedSnapshot():
                pass  # its file is all there is of it
            case _:
                raise unsupported()

    def _create_ref(self, key: str, snapshot: SnapshotId) -> None:
        create_entry(self.files.store, key, encode_ref(snapshot))

    def _replace_config(self, config: Json | None) -> None:
        """Keeps the old one, as other clients do.

        It is no part of what the new one is made of: a configuration is stored as a whole.
        """
        store, data = self.files.store, encode_config_yaml(config)
        try:
            old = store.get(CONFIG_YAML)
        except ObjectNotFoundError:
            create_entry(store, CONFIG_YAML, data)
        else:
            backup = OVERWRITTEN + backup_name(self.clock(), of=CONFIG_YAML)
            replace_entry(store, CONFIG_YAML, old, data, backup=backup)

    def _require_not_lost(self, kind: UpdateKind) -> None:
        """Raises ConflictError if the repository was migrated, perhaps without what was written.

        A migration looks at the refs after it has written `repo`, and this is the other way round:
        so one of the two notices.
        """
        try:
            self._require_not_migrated()
        except ConflictError:
            migrated = self.files.fetch_repo_info().info
            if isinstance(kind, NewCommit) and migrated.snapshots.find(kind.new) >= 0:
                return
            raise

    def _require_not_migrated(self) -> None:
        try:
            self.files.store.head(REPO_INFO)
        except ObjectNotFoundError:
            return
        raise ConflictError(
            message="the repository was migrated to version 2 in the meantime: open it again",
            kind="repo-info-updated",
        )


def _target(info: RepoInfo, branch: str) -> SnapshotId:
    return info.snapshots.id(info.branches[branch])


@contextmanager
def _as_version_1_names_it() -> Iterator[None]:
    """The reference knows less of refs in version 1, and its errors say less."""
    try:
        yield
    except AlreadyExistsError as error:
        if error.kind == "tag-previously-deleted":
            raise AlreadyExistsError(error.message, kind="tag-already-exists") from error
        raise
