"""Version 1 to version 2, in place: one new file, which says what all the small ones said.

Snapshots, manifests, logs and chunks stay as they are: files of both versions may be mixed. Until
`finish` removes the refs and the configuration of version 1, clients of version 1 can read on.

What they write after that is not in version 2. The refs are compared with what the new file was
computed from before it is written and after, and it is computed again if they differ. A commit of
frazil looks in turn for the new file after it has moved its branch: one of the two notices the
other. Clients that do not look may write later; `finish` looks for that.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from frazil.engine.files.entry_file import create_entry, replace_entry
from frazil.engine.files.object_keys import (
    CONFIG_YAML,
    OVERWRITTEN,
    REFS,
    REPO_INFO,
    V1_MAIN_BRANCH,
    backup_name,
    ref_of_key,
    tag_key,
)
from frazil.engine.repository import Repository
from frazil.errors import (
    ConflictError,
    FormatError,
    InvalidInputError,
    ObjectNotFoundError,
    PreconditionFailedError,
    ReadOnlyError,
    SessionStateError,
)
from frazil.flatbuf.flexbuffers import Json
from frazil.format.config_codec import decode_config_yaml
from frazil.format.generation import Generation
from frazil.format.ref_file import decode_ref
from frazil.format.repo_info import RepoInfo, decode_repo_info, encode_repo_info
from frazil.format.update_log import RepoMigrated
from frazil.ids import SnapshotId
from frazil.maintenance.snapshot_list import (
    PREFETCHED,
    prefetch_heads,
    synthesize_repo_info,
    with_history,
)
from frazil.objectstore.protocol import Blob, ObjectStore

type RefState = Mapping[str, bytes]
"""By key: contents of branches and of the configuration; b"" for tags, which never change."""

_TRIES = 5  # to get ahead of the writers of version 1


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class UpgradePlan:
    """`info` is all that is written; `leftovers` are what version 2 has no use for.

    `refs` is what `info` was computed from.
    """

    repository: Repository
    info: RepoInfo
    refs: RefState
    leftovers: tuple[str, ...]

    @property
    def snapshots(self) -> int:
        return len(self.info.snapshots)


def plan_upgrade(repository: Repository, *, prefetch: int = PREFETCHED) -> UpgradePlan:
    """Reads refs and the heads of all snapshots. Raises SessionStateError, ReadOnlyError."""
    require_version_1(repository)
    if not repository.store.writable:
        raise ReadOnlyError("the storage is read-only", kind="read-only-storage")
    refs = fetch_ref_state(repository.store)
    found = with_history(repository.repo_info(), prefetch_heads(repository.files, width=prefetch))
    deleted = _deleted_tags(repository.store, found)
    info = synthesize_repo_info(
        found, deleted, config=_stored_config(repository.store), now_us=repository.clock()
    )
    return UpgradePlan(
        repository=repository,
        info=info,
        refs=refs,
        leftovers=version_1_files(repository.store),
    )


def upgrade(plan: UpgradePlan) -> Repository:
    """The same repository, of version 2. Files of version 1 are still there.

    Raises ConflictError if version 1 is written to all the time.
    """
    store = plan.repository.store
    plan = _renew(plan)
    data = _encode(plan)
    try:
        written = Blob(data, create_entry(store, REPO_INFO, data))
    except PreconditionFailedError as error:
        raise ConflictError(
            message="the repository was migrated to version 2 by another client: open it again",
            kind="repo-info-updated",
        ) from error
    for _ in range(_TRIES):
        if fetch_ref_state(store) == plan.refs:
            break
        plan = _renew(plan)
        written = _replace(plan, written)
    else:
        raise _concurrent_write_error()
    upgraded = Repository.open(store, clock=plan.repository.clock, access=plan.repository.access)
    _require_alike(decode_repo_info(written.data), plan.info)
    return upgraded


def _renew(plan: UpgradePlan) -> UpgradePlan:
    """The plan, computed again if refs were written since."""
    for _ in range(_TRIES):
        if fetch_ref_state(plan.repository.store) == plan.refs:
            return plan
        plan = plan_upgrade(plan.repository)
    raise _concurrent_write_error()


def _encode(plan: UpgradePlan) -> bytes:
    config = plan.repository.config
    data = encode_repo_info(plan.info, level=(config.compression and config.compression.level) or 3)
    _require_alike(decode_repo_info(data), plan.info)
    return data


def _replace(plan: UpgradePlan, written: Blob) -> Blob:
    """The entry point with what was written to version 1 since, unless version 2 is in use."""
    store, data = plan.repository.store, _encode(plan)
    backup = OVERWRITTEN + backup_name(plan.repository.clock())
    try:
        return Blob(data, replace_entry(store, REPO_INFO, written, data, backup=backup))
    except PreconditionFailedError as error:
        raise _concurrent_write_error() from error


def _concurrent_write_error() -> ConflictError:
    return ConflictError(
        message="version 1 of the repository was written to while it was migrated: stop its"
        " writers first"
    )


def fetch_ref_state(store: ObjectStore) -> RefState:
    """Reads the refs and the configuration of version 1 as they are now."""
    state: dict[str, bytes] = {}
    for found in (*store.list(REFS), *store.list(CONFIG_YAML)):
        match ref_of_key(found.key):
            case "tag", _, _:
                state[found.key] = b""
            case None if found.key != CONFIG_YAML:
                continue
            case _:
                try:
                    state[found.key] = bytes(store.get(found.key).data)
                except ObjectNotFoundError:
                    continue
    return state


def plan_finish(store: ObjectStore) -> tuple[str, ...]:
    """Files of version 1 in a repository of version 2, in the order in which they should go.

    Raises ConflictError if one of them says what was not there when the repository was migrated: a
    client of version 1 has written since. Raises RepositoryNotFoundError.
    """
    repository = Repository.open(store)
    info = repository.repo_info()
    if info.spec_version < 2:
        raise InvalidInputError("the repository is of version 1: migrate it first")
    keys = version_1_files(store)
    migrated = _find_migrated(repository) if keys else None
    for key in keys:
        match ref_of_key(key):
            case kind, name, False:
                target = decode_ref(store.get(key).data)
                if not _was_migrated(info, migrated, kind, name, target):
                    raise ConflictError(
                        message=f"{kind} {name!r} of version 1 is at {target}, where it was not"
                        " when the repository was migrated: a client has written to version 1 since"
                    )
    return keys


def _was_migrated(
    info: RepoInfo, migrated: RepoInfo | None, kind: str, name: str, target: SnapshotId
) -> bool:
    """True if a ref of version 1 is part of what was migrated.

    Without a copy of that all that can be told is whether the snapshot is known.
    """
    if kind == "tag" and name in info.deleted_tags:
        return True
    if migrated is None:
        return info.snapshots.find(target) >= 0
    refs = migrated.branches if kind == "branch" else migrated.tags
    return name in refs and migrated.snapshots.id(refs[name]) == target


def _find_migrated(repository: Repository) -> RepoInfo | None:
    """The repository as it was migrated, None if there is no copy of that any more."""
    for at, update in enumerate(repository.ops_log()):
        if isinstance(update.kind, RepoMigrated):
            if at == 0:
                return repository.repo_info()
            if update.backup_path is None:
                return None
            try:
                data = repository.store.get(OVERWRITTEN + update.backup_path).data
            except ObjectNotFoundError:
                return None
            return decode_repo_info(data)
    return None


def finish(store: ObjectStore, keys: tuple[str, ...]) -> int:
    """Removes them one after the other: branch main first, so that no old client finds a half."""
    for key in keys:
        store.delete([key])
    return len(keys)


def require_version_1(repository: Repository) -> None:
    if repository.generation is not Generation.V1:
        version = "2.0" if repository.spec_version == 2 else repository.generation
        raise SessionStateError(
            f"invalid repository version ({version}), this function can only migrate"
            " repositories that use version 1.0 of the specification, to repositories with spec"
            " version 2.0",
            kind="invalid-repository-migration",
        )


def version_1_files(store: ObjectStore) -> tuple[str, ...]:
    """Refs, main first, and the configuration."""
    refs = sorted(found.key for found in store.list(REFS) if ref_of_key(found.key) is not None)
    refs.sort(key=lambda key: key != V1_MAIN_BRANCH)
    return (*refs, *(found.key for found in store.list(CONFIG_YAML) if found.key == CONFIG_YAML))


def _deleted_tags(store: ObjectStore, info: RepoInfo) -> dict[str, SnapshotId]:
    """Snapshots of deleted tags: their files are still there."""
    found: dict[str, SnapshotId] = {}
    for name in info.deleted_tags:
        try:
            found[name] = decode_ref(store.get(tag_key(name)).data)
        except ObjectNotFoundError:
            found[name] = info.snapshots.id(info.branches["main"])
    return found


def _stored_config(store: ObjectStore) -> Json | None:
    try:
        return decode_config_yaml(store.get(CONFIG_YAML).data)
    except ObjectNotFoundError:
        return None


def _require_alike(found: RepoInfo, expected: RepoInfo) -> None:
    alike = (
        found.snapshots.ids.tobytes() == expected.snapshots.ids.tobytes()
        and found.branches == expected.branches
        and found.tags == expected.tags
        and found.deleted_tags == expected.deleted_tags
    )
    if not alike:
        raise FormatError("what was written is not what was meant", where=REPO_INFO)
