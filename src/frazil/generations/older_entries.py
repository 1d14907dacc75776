"""Entry points of repositories before version 1, and of pre-releases of version 2.

Before version 1, a branch is a sequence of small files (keys: alpha_refs.py). A commit creates the
next file of its branch; if it exists, another writer has committed. So a store need not be able to
replace an object conditionally, nothing is ever overwritten, and the files of a branch are its
history. As in version 1, the engine sees all this as a repo info. Deleted tags and a configuration
exist only in generations that are not written: they are read and not changed.

Entry points of pre-releases of version 2 are only read.
"""

from collections.abc import Callable
from dataclasses import dataclass

from frazil.clock import Clock
from frazil.engine.files.entry_file import create_entry, no_wait
from frazil.engine.files.files import annotate_errors
from frazil.engine.files.object_keys import CONFIG_YAML
from frazil.engine.refs.ancestry import SnapshotChain
from frazil.engine.refs.entries import fetch_config_yaml
from frazil.engine.refs.entry import Change, attempts, attempts_exhausted_error
from frazil.engine.refs.entry_v1 import require_name
from frazil.engine.refs.ops_log import PageMerge
from frazil.engine.refs.refs import MAIN
from frazil.errors import (
    ConflictError,
    FormatError,
    ObjectNotFoundError,
    PreconditionFailedError,
    RepositoryNotFoundError,
)
from frazil.flatbuf.flexbuffers import Json
from frazil.format.generation import Generation, read_only, require_writable
from frazil.format.nodes import Nodes
from frazil.format.ref_file import encode_ref
from frazil.format.repo_info import RepoInfo
from frazil.format.snapshot import Snapshot
from frazil.format.update_log import (
    Availability,
    BranchCreated,
    BranchReset,
    NewCommit,
    NewDetachedSnapshot,
    RepoStatus,
    TagCreated,
    UpdateKind,
)
from frazil.generations.alpha_metadata import decode_old_config
from frazil.generations.alpha_refs import (
    RefFile,
    RefFiles,
    branch_file_key,
    encode_alpha1_ref,
    tag_file_key,
)
from frazil.generations.older_files import AlphaFiles, V2preFiles
from frazil.ids import SnapshotId

_ONLINE = RepoStatus(availability=Availability.ONLINE, set_at_us=0, reason=None)
_FIRST_MESSAGES = {Generation.ALPHA1: "Dataset initialized"}


@dataclass(frozen=True, slots=True)
class _Tip:
    file: RefFile
    snapshot: SnapshotId


@dataclass(frozen=True, slots=True)
class _Stored:
    info: RepoInfo
    branches: dict[str, _Tip]


@dataclass(frozen=True, slots=True)
class AlphaEntry:
    files: AlphaFiles
    clock: Clock

    def create(self, *, config: Json | None) -> None:
        """Drops the configuration, which these generations cannot store."""
        del config
        require_writable(self.files.generation)
        first = Snapshot(
            id=SnapshotId.random(),
            parent_id=None,
            flushed_at_us=self.clock(),
            message=_FIRST_MESSAGES.get(self.files.generation, "Repository initialized"),
            metadata={},
            manifest_files=(),
            nodes=Nodes.empty(),
        )
        self.files.put_snapshot(first)
        self.files.store.sync()
        try:
            self._put_ref(branch_file_key(self.files.generation, MAIN, 0), first.id)
        except PreconditionFailedError as error:
            raise ConflictError(
                message="another client created a repository here", kind="branch-update-conflict"
            ) from error

    def fetch(self) -> RepoInfo:
        return self._fetch_stored().info

    def fetch_readable(self) -> tuple[RepoInfo, dict[str, FormatError]]:
        damaged = self.files.find_damaged_refs()
        return self._stored(self.files.list_refs().without(damaged.keys())).info, damaged

    def fetch_config(self) -> Json | None:
        if MAIN not in self.files.list_refs().branches:
            raise RepositoryNotFoundError("the repository doesn't exist")
        try:
            data = self.files.store.get(CONFIG_YAML).data
        except ObjectNotFoundError:
            return None
        with annotate_errors(CONFIG_YAML):
            return decode_old_config(data)

    def update(
        self,
        change: Change,
        *,
        doing: str,
        even_if_read_only: bool = False,
        ready: Callable[[], None] = no_wait,
        new_page: PageMerge | None = None,
    ) -> RepoInfo:
        """Applies `change` and returns what it made; there is no ops log."""
        del doing, even_if_read_only, new_page  # there is no status
        require_writable(self.files.generation)
        for _ in attempts(self.files.settings):
            old = self._fetch_stored()
            new, kind = change(old.info)
            ready()
            self.files.store.sync()  # what a ref is about to point to
            if self._write(old, new, kind):
                return new
        raise attempts_exhausted_error(self.files.settings)

    # Reading

    def _fetch_stored(self) -> _Stored:
        found = self.files.list_refs()
        if MAIN not in found.branches:
            raise RepositoryNotFoundError("the repository doesn't exist")
        return self._stored(found)

    def _stored(self, found: RefFiles) -> _Stored:
        files = self.files
        newest = [listed[0] for listed in found.branches.values()]
        keys = [*(file.key for file in newest), *(file.key for file in found.tags.values())]
        refs = files.pool.map(files.fetch_ref, keys)
        targets = {key: ref.snapshot for key, ref in zip(keys, refs, strict=True)}
        branches = {file.name: _Tip(file, targets[file.key]) for file in newest}
        chain = SnapshotChain(files.fetch_head, targets.values())
        info = RepoInfo(
            spec_version=1,
            tags={name: chain.row_of(targets[file.key]) for name, file in found.tags.items()},
            branches={name: chain.row_of(tip.snapshot) for name, tip in branches.items()},
            deleted_tags=tuple(sorted(found.deleted_tags, key=str.encode)),
            snapshots=chain,
            status=_ONLINE,
            metadata={},
            updates=(),
        )
        return _Stored(info, branches)

    # Writing

    def _write(self, old: _Stored, new: RepoInfo, kind: UpdateKind) -> bool:
        """Writes the change; False if another writer was faster."""
        generation = self.files.generation
        match kind:
            case NewCommit(name, _) | BranchReset(name, _):
                following = old.branches[name].file.sequence + 1
                key = branch_file_key(generation, name, following)
                target = new.snapshots.id(new.branches[name])
                return self._made(key, target) or (
                    # Written by us, and the response was lost: no other writer has this snapshot.
                    isinstance(kind, NewCommit) and self.files.fetch_ref(key).snapshot == target
                )
            case BranchCreated(name):
                require_name(name)
                key = branch_file_key(generation, name, 0)
                return self._made(key, new.snapshots.id(new.branches[name]))
            case TagCreated(name):
                require_name(name)
                key = tag_file_key(generation, name)
                return self._made(key, new.snapshots.id(new.tags[name]))
            case NewDetachedSnapshot():
                return True  # its file is all that is stored of it
            case _:
                raise _unsupported_error(generation)

    def _made(self, key: str, snapshot: SnapshotId) -> bool:
        try:
            self._put_ref(key, snapshot)
        except PreconditionFailedError:
            return False
        return True

    def _put_ref(self, key: str, snapshot: SnapshotId) -> None:
        is_documented = self.files.generation is Generation.ALPHA1
        data = encode_alpha1_ref(snapshot, self.clock()) if is_documented else encode_ref(snapshot)
        create_entry(self.files.store, key, data)


def _unsupported_error(generation: Generation) -> FormatError:
    return FormatError(
        f"repositories of generation {generation} have no such operation: `frazil migrate` makes"
        " them ones of version 2",
        kind="unsupported-spec-version",
    )


@dataclass(frozen=True, slots=True)
class V2preEntry:
    files: V2preFiles
    clock: Clock

    def create(self, *, config: Json | None) -> None:
        del config
        raise read_only(Generation.V2PRE)

    def fetch(self) -> RepoInfo:
        try:
            return self.files.fetch_early_info()
        except ObjectNotFoundError as error:
            raise RepositoryNotFoundError("the repository doesn't exist") from error

    def fetch_readable(self) -> tuple[RepoInfo, dict[str, FormatError]]:
        return self.fetch(), {}

    def fetch_config(self) -> Json | None:
        """The configuration, which was in `config.yaml` until February 2026."""
        stored = self.fetch().config
        return fetch_config_yaml(self.files.store) if stored is None else stored

    def update(
        self,
        change: Change,
        *,
        doing: str,
        even_if_read_only: bool = False,
        ready: Callable[[], None] = no_wait,
        new_page: PageMerge | None = None,
    ) -> RepoInfo:
        del change, doing, even_if_read_only, ready, new_page
        raise read_only(Generation.V2PRE)
