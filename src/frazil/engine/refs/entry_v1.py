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

from collections.abc import Callable, ItemsView, Iterator, KeysView, Sequence, ValuesView
from contextlib import contextmanager
from dataclasses import field
from functools import cached_property
from typing import Any, overload

from frazil.clock import Clock
from frazil.dataclass import dataclass
from frazil.engine.files.caches import TagFile
from frazil.engine.files.entry_file import create_entry, move_ref, no_wait, replace_entry
from frazil.engine.files.files import Files, annotate_errors
from frazil.engine.files.object_keys import (
    CONFIG_YAML,
    OVERWRITTEN,
    REFS,
    REPO_INFO,
    V1_MAIN_BRANCH,
    backup_name,
    branch_key,
    ref_of_key,
    tag_key,
    tombstone_key,
)
from frazil.engine.refs.ancestry import SnapshotChain
from frazil.engine.refs.entry import Change, attempts, attempts_exhausted_error, initial_snapshot
from frazil.engine.refs.ops_log import PageMerge, was_committed
from frazil.engine.refs.refs import MAIN
from frazil.engine.refs.repo_settings import unsupported_version_error
from frazil.errors import (
    AlreadyExistsError,
    ConflictError,
    FormatError,
    InvalidInputError,
    ObjectNotFoundError,
    PreconditionFailedError,
    RefNotFoundError,
    RepositoryNotFoundError,
)
from frazil.flatbuf.flexbuffers import Json
from frazil.format.config_codec import decode_config_yaml, encode_config_yaml
from frazil.format.ref_file import decode_ref, encode_ref
from frazil.format.repo_info import RepoInfo
from frazil.format.update_log import (
    Availability,
    BranchCreated,
    BranchDeleted,
    BranchReset,
    ConfigChanged,
    NewCommit,
    NewDetachedSnapshot,
    RepoStatus,
    TagCreated,
    TagDeleted,
    UpdateKind,
)
from frazil.ids import INITIAL_SNAPSHOT, SnapshotId

# Refs of a version 1 repository, read from their files as they are asked for.
#
# Asking for one ref reads one file and lists nothing: credentials that may get but not list are
# enough, and so is a plain web server. Only asking for all of them lists `refs/`.

_ONLINE = RepoStatus(availability=Availability.ONLINE, set_at_us=0, reason=None)


@dataclass(frozen=True, slots=True)
class StoredRef:
    snapshot: SnapshotId
    version: str


class LazyRefs(dict[str, int]):
    """Rows by name: `look` finds one, `list_all` is called when all of them are asked for."""

    def __init__(self, look: Callable[[str], int], list_all: Callable[[], dict[str, int]]) -> None:
        super().__init__()
        self._look, self._list_all = look, list_all
        self._is_complete = False

    def __missing__(self, name: str) -> int:
        self[name] = self._look(name)
        return self[name]

    def __contains__(self, name: object) -> bool:
        try:
            return isinstance(name, str) and self[name] >= 0
        except RefNotFoundError:
            return False

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self else default  # noqa: SIM401 -- this is `get`

    def __or__(self, other: Any) -> Any:
        """Both, the others winning; nothing is listed for it."""
        both = LazyRefs(self._look, self._list_all)
        for name in dict.__iter__(self):
            both[name] = self[name]
        both.update(other)
        return both

    def _list(self) -> None:
        if not self._is_complete:
            for name, row in self._list_all().items():
                self.setdefault(name, row)
            self._is_complete = True

    def __iter__(self) -> Iterator[str]:
        self._list()
        return super().__iter__()

    def __len__(self) -> int:
        self._list()
        return super().__len__()

    def __eq__(self, other: object) -> bool:
        self._list()
        return super().__eq__(other)

    __hash__ = None

    def keys(self) -> KeysView[str]:  # type: ignore[override]  # typeshed has a class of its own
        self._list()
        return super().keys()

    def values(self) -> ValuesView[int]:  # type: ignore[override]  # same
        self._list()
        return super().values()

    def items(self) -> ItemsView[str, int]:  # type: ignore[override]  # same
        self._list()
        return super().items()


class LazyNames(Sequence[str]):
    """Names of deleted tags: `has` looks at one, `list_all` lists them."""

    def __init__(self, has: Callable[[str], bool], list_all: Callable[[], tuple[str, ...]]) -> None:
        self._has, self._list_all = has, list_all

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._has(name)

    def __len__(self) -> int:
        return len(self._list_all())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[str, ...]: ...
    def __getitem__(self, place: int | slice) -> str | tuple[str, ...]:
        return self._list_all()[place]


@dataclass(frozen=True, slots=True)
class _Names:
    branches: set[str] = field(default_factory=lambda: {MAIN})
    tags: dict[str, TagFile] = field(default_factory=dict)
    deleted_tags: set[str] = field(default_factory=set)


class RefReader:
    """The refs as of now: a branch that was read once stays where it was then."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self.branches: dict[str, StoredRef] = {}  # those read so far
        chain = SnapshotChain(
            files.fetch_head, complete=self._make_all_known, forget=files.forget_heads
        )
        self.info = RepoInfo(
            spec_version=1,
            tags=LazyRefs(self._tag_row, self._tag_rows),
            branches=LazyRefs(self._branch_row, self._branch_rows),
            deleted_tags=LazyNames(self._is_deleted, self._deleted_tags),
            snapshots=chain,
            status=_ONLINE,
            metadata={},
            updates=(),
        )
        self._chain = chain

    def _make_all_known(self) -> None:
        """Adds the snapshots reachable from all refs to the chain."""
        len(self.info.branches)
        len(self.info.tags)

    # One of them

    def _branch_row(self, name: str) -> int:
        require_name(name)
        ref = find_branch(self.files, name)
        if ref is None:
            raise self._no_such_ref(name)
        self.branches[name] = ref
        return self._chain.row_of(ref.snapshot)

    def _tag_row(self, name: str) -> int:
        require_name(name)
        target = self._find_tag(name)
        if target is None or self._is_deleted(name):
            raise self._no_such_ref(name)
        return self._chain.row_of(target)

    def _find_tag(self, name: str) -> SnapshotId | None:
        key = tag_key(name)
        try:
            data = self.files.store.get(key).data
        except ObjectNotFoundError:
            return None
        with annotate_errors(key):
            return decode_ref(data)

    def _is_deleted(self, name: str) -> bool:
        try:
            self.files.store.head(tombstone_key(name))
        except ObjectNotFoundError:
            return False
        return True

    def _no_such_ref(self, name: str) -> RefNotFoundError | RepositoryNotFoundError:
        if find_branch(self.files, MAIN) is None:
            return RepositoryNotFoundError("the repository doesn't exist")
        return RefNotFoundError(f"ref not found `{name}`")

    # All of them

    @cached_property
    def _names(self) -> _Names:
        names = _Names()
        for stored in self.files.store.list(REFS):
            match ref_of_key(stored.key):
                case "branch", name, False:
                    names.branches.add(name)
                case "tag", name, True:
                    names.deleted_tags.add(name)
                case "tag", name, False:
                    names.tags[name] = TagFile(name, stored.size_bytes, stored.modified_at_us)
        return names

    def _branch_rows(self) -> dict[str, int]:
        unread = sorted(self._names.branches - self.branches.keys())
        refs = self.files.pool.map(lambda name: find_branch(self.files, name), unread)
        for name, ref in zip(unread, refs, strict=True):
            if ref is not None:
                self.branches[name] = ref
        if MAIN not in self.branches:
            raise RepositoryNotFoundError("the repository doesn't exist")
        return {name: self._chain.row_of(ref.snapshot) for name, ref in self.branches.items()}

    def _tag_rows(self) -> dict[str, int]:
        """A file that is listed as it was before is not read again."""
        known = self.files.v1_tags
        names = sorted(self._names.tags.keys() - self._names.deleted_tags)
        new = [name for name in names if self._names.tags[name] not in known]
        for name, target in zip(new, self.files.pool.map(self._find_tag, new), strict=True):
            if target is not None:
                known[self._names.tags[name]] = target
        targets = {name: known.get(self._names.tags[name]) for name in names}
        return {
            name: self._chain.row_of(target)
            for name, target in targets.items()
            if target is not None
        }

    def _deleted_tags(self) -> tuple[str, ...]:
        return tuple(sorted(self._names.deleted_tags, key=str.encode))


def find_branch(files: Files, name: str) -> StoredRef | None:
    key = branch_key(name)
    try:
        blob = files.store.get(key)
    except ObjectNotFoundError:
        return None
    with annotate_errors(key):
        return StoredRef(decode_ref(blob.data), blob.version)


def require_name(name: str) -> None:
    if "/" in name:
        raise InvalidInputError(f"invalid ref name `{name}`", kind="invalid-ref-name")


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
        with annotate_errors(CONFIG_YAML):
            return decode_config_yaml(data)

    def update(
        self,
        change: Change,
        *,
        doing: str,
        even_if_read_only: bool = False,
        ready: Callable[[], None] = no_wait,
        new_page: PageMerge | None = None,
    ) -> RepoInfo:
        """Applies `change` and returns what it made; version 1 has no ops log."""
        del doing, even_if_read_only, new_page  # version 1 has no status
        for _ in attempts(self.files.settings):
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
        raise attempts_exhausted_error(self.files.settings)

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
                raise unsupported_version_error()

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
