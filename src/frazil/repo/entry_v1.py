"""The entry point of a version 1 repository: a small file for each branch and tag.

    refs/branch.NAME/ref.json          replaced by compare-and-swap
    refs/tag.NAME/ref.json             created once, never changed
    refs/tag.NAME/ref.json.deleted     the tag is deleted, and its name used up
    config.yaml                        only if it is not the default

To everybody else these look like a repo info: what it lists is read from the files, and what a
step changes in it is written to the one file that the step is about.

Stores delete unconditionally. A commit that was stored just before the branch is deleted goes with
it, as in version 2, where the deletion is worked out anew on what the commit left; one that comes
after is refused, and does not bring the branch back.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from frazil.assets.files import Files, naming
from frazil.assets.layout import (
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
from frazil.clock import Clock
from frazil.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidInputError,
    ObjectNotFoundError,
    PreconditionFailedError,
    RefNotFoundError,
    RepositoryNotFoundError,
)
from frazil.flatbuf.flexbuffers import Json
from frazil.format.config_yaml import decode_config_yaml, encode_config_yaml
from frazil.format.ref_file import decode_ref, encode_ref
from frazil.format.repo_info import Availability, RepoInfo, RepoStatus
from frazil.format.updates import (
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
from frazil.objectstore.protocol import Absent, Matches, Precondition
from frazil.repo.entry import Change, exhausted, nothing, tries
from frazil.repo.initial import initial_snapshot
from frazil.repo.own_update import was_committed
from frazil.repo.refs import MAIN
from frazil.repo.snapshot_chain import SnapshotChain
from frazil.repo.spec_version import unsupported

_ONLINE = RepoStatus(availability=Availability.ONLINE, set_at_us=0, reason=None)


@dataclass(frozen=True, slots=True)
class _StoredRef:
    snapshot: SnapshotId
    version: str


class _Refs(dict[str, int]):
    """Rows by name. A name that was not listed is looked for once more.

    A listing may miss a file that is being replaced at the same moment.
    """

    def __init__(self, known: dict[str, int], look: Callable[[str], int]) -> None:
        super().__init__(known)
        self._look = look

    def __missing__(self, name: str) -> int:
        self[name] = self._look(name)
        return self[name]

    def __contains__(self, name: object) -> bool:
        try:
            return isinstance(name, str) and self[name] >= 0
        except RefNotFoundError:
            return False


@dataclass(frozen=True, slots=True)
class _Stored:
    info: RepoInfo
    branches: dict[str, _StoredRef]


@dataclass(frozen=True, slots=True)
class RefFilesEntry:
    files: Files
    clock: Clock

    def create(self, *, config: Json | None) -> None:
        self.files.put_snapshot(initial_snapshot(self.clock()))
        self.files.store.sync()
        try:
            self._put_ref(branch_key(MAIN), INITIAL_SNAPSHOT, Absent())
        except PreconditionFailedError as error:
            raise ConflictError(
                message="somebody else created a repository here", kind="branch-update-conflict"
            ) from error
        if config is not None:
            self.files.store.put(CONFIG_YAML, encode_config_yaml(config))
            self.files.store.sync()

    def fetch(self) -> RepoInfo:
        return self._fetch_stored().info

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
        """Applies `change` and returns what it made; the ops log of version 1 is nobody's."""
        del doing, even_if_read_only  # version 1 has no status
        for _ in tries(self.files.settings):
            self._require_not_migrated()
            old = self._fetch_stored()
            with _as_version_1_names_it():
                new, kind = change(old.info)
            ready()
            self.files.store.sync()  # what a ref is about to point to
            try:
                self._write(old, new, kind)
            except PreconditionFailedError:
                if not self._was_done(old, kind):
                    continue
            return new
        raise exhausted(self.files.settings)

    def _was_done(self, old: _Stored, kind: UpdateKind) -> bool:
        """Whether a refused commit was stored: its answer lost, and others on top of it since."""
        if not isinstance(kind, NewCommit):
            return False
        ref = self._find_branch(kind.branch)
        return was_committed(
            kind.new,
            parent=old.branches[kind.branch].snapshot,
            tip=None if ref is None else ref.snapshot,
            parent_of=self._parent_of,
        )

    def _parent_of(self, snapshot: SnapshotId) -> SnapshotId | None:
        try:
            return self.files.fetch_head(snapshot).parent_id
        except ObjectNotFoundError:  # whoever reads that history will be told
            return None

    # Reading

    def _fetch_stored(self) -> _Stored:
        names = {MAIN}
        tags, deleted = set[str](), set[str]()
        for found in self.files.store.list(REFS):
            match ref_of_key(found.key):
                case "branch", name, False:
                    names.add(name)
                case "tag", name, is_deleted:
                    (deleted if is_deleted else tags).add(name)
        refs = self.files.pool.map(self._find_branch, sorted(names))
        branches = {n: ref for n, ref in zip(sorted(names), refs, strict=True) if ref is not None}
        if MAIN not in branches:
            raise RepositoryNotFoundError("the repository doesn't exist")
        targets = self._fetch_tags(sorted(tags - deleted))
        known = [*(ref.snapshot for ref in branches.values()), *targets.values()]
        chain = SnapshotChain(self.files.fetch_head, known)

        def look(name: str) -> int:
            require_name(name)
            ref = self._find_branch(name)
            if ref is None:
                raise _no_such_ref(name)
            branches[name] = ref
            return chain.row_of(ref.snapshot)

        def look_for_tag(name: str) -> int:
            require_name(name)
            raise _no_such_ref(name)

        rows = {name: chain.row_of(ref.snapshot) for name, ref in branches.items()}
        tag_rows = {name: chain.row_of(target) for name, target in targets.items()}
        info = RepoInfo(
            spec_version=1,
            tags=_Refs(tag_rows, look_for_tag),
            branches=_Refs(rows, look),
            deleted_tags=tuple(sorted(deleted, key=str.encode)),
            snapshots=chain,
            status=_ONLINE,
            metadata={},
            updates=(),
        )
        return _Stored(info, branches)

    def _find_branch(self, name: str) -> _StoredRef | None:
        key = branch_key(name)
        try:
            blob = self.files.store.get(key)
        except ObjectNotFoundError:
            return None
        with naming(key):
            return _StoredRef(decode_ref(blob.data), blob.version)

    def _fetch_tags(self, names: list[str]) -> dict[str, SnapshotId]:
        known = self.files.v1_tags
        new = [name for name in names if name not in known]
        known.update(zip(new, self.files.pool.map(self._fetch_tag, new), strict=True))
        return {name: known[name] for name in names}

    def _fetch_tag(self, name: str) -> SnapshotId:
        key = tag_key(name)
        with naming(key):
            return decode_ref(self.files.store.get(key).data)

    # Writing

    def _write(self, old: _Stored, new: RepoInfo, kind: UpdateKind) -> None:
        """Raises PreconditionFailedError if somebody else was faster."""
        match kind:
            case NewCommit(name, _) | BranchReset(name, _):
                unchanged = Matches(old.branches[name].version)
                self._put_ref(branch_key(name), _target(new, name), unchanged)
            case BranchCreated(name):
                self._put_ref(branch_key(name), _target(new, name), Absent())
            case BranchDeleted(name):
                self.files.store.delete([branch_key(name)])
                self.files.store.sync()
            case TagCreated(name):
                require_name(name)
                self._put_ref(tag_key(name), new.snapshots.id(new.tags[name]), Absent())
            case TagDeleted(name):
                self.files.store.put(tombstone_key(name), b"", when=Absent())
            case ConfigChanged():
                self._replace_config(new.config)
            case NewDetachedSnapshot():
                pass  # its file is all there is of it
            case _:
                raise unsupported()

    def _put_ref(self, key: str, snapshot: SnapshotId, when: Precondition) -> None:
        self.files.store.put(key, encode_ref(snapshot), when=when)

    def _replace_config(self, config: Json | None) -> None:
        """The old one is kept, as other clients do."""
        store = self.files.store
        when: Precondition = Absent()
        try:
            old = store.get(CONFIG_YAML)
        except ObjectNotFoundError:
            pass
        else:
            when = Matches(old.version)
            store.put(OVERWRITTEN + backup_name(self.clock(), of=CONFIG_YAML), old.data)
            store.sync()
        store.put(CONFIG_YAML, encode_config_yaml(config), when=when)

    def _require_not_migrated(self) -> None:
        try:
            self.files.store.head(REPO_INFO)
        except ObjectNotFoundError:
            return
        raise ConflictError(
            message="the repository was migrated to version 2 meanwhile: open it again",
            kind="repo-info-updated",
        )


def require_name(name: str) -> None:
    if "/" in name:
        raise InvalidInputError(f"invalid ref name `{name}`", kind="invalid-ref-name")


def _target(info: RepoInfo, branch: str) -> SnapshotId:
    return info.snapshots.id(info.branches[branch])


def _no_such_ref(name: str) -> RefNotFoundError:
    return RefNotFoundError(f"ref not found `{name}`")


@contextmanager
def _as_version_1_names_it() -> Iterator[None]:
    """The reference knows less of refs in version 1, and its errors say less."""
    try:
        yield
    except AlreadyExistsError as error:
        if error.kind == "tag-previously-deleted":
            raise AlreadyExistsError(error.message, kind="tag-already-exists") from error
        raise
