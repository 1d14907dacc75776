"""What a copy begins with and ends with: the refs of its source, which lead to everything else.

    version 2   one file, `repo`, copied as it is or made anew for fewer refs
    version 1   a file for each branch and tag, and `config.yaml`

They are read before anything is copied, and written after all of it, each where the target is still
as it was found.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Protocol

from frazil.assets.files import Files
from frazil.assets.layout import (
    CONFIG_YAML,
    OVERWRITTEN,
    REFS,
    REPO_INFO,
    V1_MAIN_BRANCH,
    branch_key,
    ref_of_key,
    snapshot_key,
    tag_key,
    tombstone_key,
)
from frazil.errors import (
    ConflictError,
    InvalidInputError,
    ObjectNotFoundError,
    PreconditionFailedError,
)
from frazil.format.generation import CURRENT, Generation
from frazil.format.ref_file import decode_ref, encode_ref
from frazil.format.repo_info import RepoInfo, decode_repo_info, encode_repo_info
from frazil.ids import SnapshotId
from frazil.maintenance.copying.refs import choose_refs, tips_of
from frazil.maintenance.migrate.heads import prefetched
from frazil.maintenance.migrate.listing import in_order, with_history
from frazil.objectstore.protocol import Absent, Matches, ObjectStore, Precondition
from frazil.repo.repository import Repository

type Versions = Mapping[str, str]
"""By key, what was found at the target."""


class Entry(Protocol):
    """How a version of the format keeps its refs."""

    def find(self, target: ObjectStore) -> Versions:
        """What is there. Raises ConflictError if it is more than an earlier copy."""
        ...

    def publish(self, target: ObjectStore, found: Versions) -> bool:
        """Makes the copy a repository, or brings it up to date; False if it is. May conflict."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Origin:
    """A source, as of now, with the refs that were chosen. `kept` are more files to be copied."""

    info: RepoInfo
    kept: tuple[str, ...]
    entry: Entry


def read_origin(repository: Repository, refs: Sequence[str] | None, files: Files) -> Origin:
    """`files` are where its snapshots are. Raises RefNotFoundError for refs that are not there."""
    require_current(repository.generation)
    if repository.spec_version == 1:
        return _read_ref_files(repository, refs, files)
    return _read_repo_file(repository, refs)


def require_current(generation: Generation) -> None:
    if generation not in CURRENT:
        raise InvalidInputError(
            f"the repository is of generation {generation}, which is not copied as it is:"
            " `frazil migrate` makes one of version 2, here or elsewhere"
        )


@dataclass(frozen=True, slots=True, eq=False)
class RepoFile:
    """Version 2."""

    info: RepoInfo
    data: bytes

    def find(self, target: ObjectStore) -> Versions:
        require_absent(target, V1_MAIN_BRANCH, version=1)
        try:
            blob = target.get(REPO_INFO)
        except ObjectNotFoundError:
            return {}
        there = decode_repo_info(blob.data)
        for name, row in {**there.branches, **there.tags}.items():
            tip = there.snapshots.id(row)
            _require(self.info.snapshots.find(tip) >= 0, name, tip)
        return {REPO_INFO: blob.version}

    def publish(self, target: ObjectStore, found: Versions) -> bool:
        if REPO_INFO in found and _says_the_same(
            decode_repo_info(target.get(REPO_INFO).data), self.info
        ):
            return False
        with moved_is_conflict():
            target.put(REPO_INFO, self.data, when=_unchanged(found, REPO_INFO))
        return True


@dataclass(frozen=True, slots=True, eq=False)
class RefFiles:
    """Version 1. The branch main is written last: before it there is no repository."""

    source: ObjectStore
    info: RepoInfo
    config: bytes | None

    def find(self, target: ObjectStore) -> Versions:
        require_absent(target, REPO_INFO, version=2)
        found = {}
        for listed in target.list(REFS):
            match ref_of_key(listed.key):
                case _, name, False:
                    blob = target.get(listed.key)
                    tip = decode_ref(blob.data)
                    # Snapshots that no ref of the source leads to any more are listed nowhere.
                    known = self.info.snapshots.find(tip) >= 0
                    _require(known or exists(self.source, snapshot_key(tip)), name, tip)
                    found[listed.key] = blob.version
                case _, _, True:
                    found[listed.key] = ""  # that it is there is all it says
        return found

    def publish(self, target: ObjectStore, found: Versions) -> bool:
        made = self._files(target)
        if self.config is not None:
            target.put(CONFIG_YAML, self.config)
            target.sync()
        changed = False
        with moved_is_conflict():
            for key, data in made.items():
                if key not in found or (data and bytes(target.get(key).data) != data):
                    target.put(key, data, when=_unchanged(found, key))
                    changed = True
        gone = [key for key in found if key not in made]
        target.delete(gone)
        return changed or bool(gone)

    def _files(self, target: ObjectStore) -> dict[str, bytes]:
        """In the order in which they are written."""
        del target
        tags = tips_of(self.info, self.info.tags)
        made = {tag_key(name): encode_ref(tip) for name, tip in tags.items()}
        for name in self.info.deleted_tags:
            with suppress(ObjectNotFoundError):
                made[tag_key(name)] = bytes(self.source.get(tag_key(name)).data)
            made[tombstone_key(name)] = b""
        tips = tips_of(self.info, self.info.branches)
        branches = {branch_key(name): encode_ref(tip) for name, tip in tips.items()}
        main = {V1_MAIN_BRANCH: branches.pop(V1_MAIN_BRANCH)}
        return {**made, **branches, **main}


def _read_repo_file(repository: Repository, refs: Sequence[str] | None) -> Origin:
    store = repository.store
    data = bytes(store.get(REPO_INFO).data)
    info = decode_repo_info(data)
    chosen = choose_refs(info, refs, clock=repository.clock)
    return Origin(
        info=chosen,
        kept=() if refs is not None else tuple(one.key for one in store.list(OVERWRITTEN)),
        entry=RepoFile(chosen, data if refs is None else encode_repo_info(chosen)),
    )


def _read_ref_files(repository: Repository, refs: Sequence[str] | None, files: Files) -> Origin:
    found = in_order(with_history(repository.repo_info(), prefetched(files)))
    info = choose_refs(found, refs, clock=repository.clock)
    try:
        config: bytes | None = bytes(repository.store.get(CONFIG_YAML).data)
    except ObjectNotFoundError:
        config = None
    return Origin(info=info, kept=(), entry=RefFiles(repository.store, info, config))


def exists(store: ObjectStore, key: str) -> bool:
    try:
        store.head(key)
    except ObjectNotFoundError:
        return False
    return True


def require_absent(target: ObjectStore, key: str, *, version: int) -> None:
    if exists(target, key):
        raise ConflictError(message=f"there is a repository of version {version} at the target")


def _says_the_same(there: RepoInfo, ours: RepoInfo) -> bool:
    """Whether two repo infos differ at most in their ops log, and ours is not the longer one."""
    newest = [next(iter(info.updates), None) for info in (there, ours)]
    return (
        there.snapshots.ids.tobytes() == ours.snapshots.ids.tobytes()
        and there.snapshots.parents.tobytes() == ours.snapshots.parents.tobytes()
        and there.branches == ours.branches
        and there.tags == ours.tags
        and there.deleted_tags == ours.deleted_tags
        and there.metadata == ours.metadata
        and there.config == ours.config
        and there.status == ours.status
        and (newest[0] == newest[1] or len(ours.updates) == 1)
    )


def _unchanged(found: Versions, key: str) -> Precondition:
    return Matches(found[key]) if key in found else Absent()


def _require(known: bool, name: str, tip: SnapshotId) -> None:  # noqa: FBT001 -- a condition
    if not known:
        raise ConflictError(
            message=f"{name!r} at the target is at {tip}, which the source does not have: it is"
            " another repository, or was changed since it was copied"
        )


@contextmanager
def moved_is_conflict() -> Iterator[None]:
    try:
        yield
    except PreconditionFailedError as error:
        raise ConflictError(message="the target was changed while it was copied to") from error
