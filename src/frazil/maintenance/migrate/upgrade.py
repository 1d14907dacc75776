"""Version 1 to version 2, in place: one new file, which says what all the small ones said.

Snapshots, manifests, logs and chunks stay as they are: files of both versions may be mixed. Until
`finish` removes the refs and the configuration of version 1, clients of version 1 can read on; what
they commit would be lost, so `finish` looks for it first.
"""

from dataclasses import dataclass

from frazil.assets.layout import (
    CONFIG_YAML,
    REFS,
    REPO_INFO,
    V1_MAIN_BRANCH,
    ref_of_key,
    tag_key,
)
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
from frazil.format.config_yaml import decode_config_yaml
from frazil.format.generation import Generation
from frazil.format.ref_file import decode_ref
from frazil.format.repo_info import RepoInfo, decode_repo_info, encode_repo_info
from frazil.ids import SnapshotId
from frazil.maintenance.migrate.heads import PREFETCHED, prefetched
from frazil.maintenance.migrate.listing import listed_info, with_history
from frazil.objectstore.protocol import Absent, ObjectStore
from frazil.repo.repository import Repository


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class UpgradePlan:
    """`info` is all that is written; `leftovers` are what version 2 has no use for."""

    repository: Repository
    info: RepoInfo
    leftovers: tuple[str, ...]

    @property
    def snapshots(self) -> int:
        return len(self.info.snapshots)


def plan_upgrade(repository: Repository, *, prefetch: int = PREFETCHED) -> UpgradePlan:
    """Reads refs and the heads of all snapshots. Raises SessionStateError, ReadOnlyError."""
    require_version_1(repository)
    if not repository.store.writable:
        raise ReadOnlyError("the storage is read-only", kind="read-only-storage")
    found = with_history(repository.repo_info(), prefetched(repository.files, width=prefetch))
    deleted = _deleted_tags(repository.store, found)
    info = listed_info(
        found, deleted, config=_stored_config(repository.store), now_us=repository.clock()
    )
    return UpgradePlan(
        repository=repository, info=info, leftovers=version_1_files(repository.store)
    )


def upgrade(plan: UpgradePlan) -> Repository:
    """The same repository, of version 2. Files of version 1 are still there."""
    store, config = plan.repository.store, plan.repository.config
    data = encode_repo_info(plan.info, level=(config.compression and config.compression.level) or 3)
    _require_alike(decode_repo_info(data), plan.info)
    try:
        store.put(REPO_INFO, data, when=Absent())
    except PreconditionFailedError as error:
        raise ConflictError(
            message="the repository was migrated to version 2 meanwhile: open it again",
            kind="repo-info-updated",
        ) from error
    upgraded = Repository.open(store, clock=plan.repository.clock, access=plan.repository.access)
    _require_alike(upgraded.repo_info(), plan.info)
    return upgraded


def plan_finish(store: ObjectStore) -> tuple[str, ...]:
    """Files of version 1 in a repository of version 2, in the order in which they should go.

    Raises ConflictError if one of them says what the repository does not: somebody has committed
    to version 1 since. Raises RepositoryNotFoundError.
    """
    info = Repository.open(store).repo_info()
    if info.spec_version < 2:
        raise InvalidInputError("the repository is of version 1: migrate it first")
    for key in (keys := version_1_files(store)):
        match ref_of_key(key):
            case kind, name, False:
                target = decode_ref(store.get(key).data)
                if info.snapshots.find(target) < 0 and name not in info.deleted_tags:
                    raise ConflictError(
                        message=f"{kind} {name!r} of version 1 is at {target}, which version 2 does"
                        " not have: somebody has written to version 1 since it was migrated"
                    )
    return keys


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
    """Where each was: its file is still there."""
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
