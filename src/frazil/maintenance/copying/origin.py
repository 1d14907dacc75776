"""What a copy begins with and ends with: the refs of its source, which lead to everything else.

    version 2   one file, `repo`, copied as it is or made again for fewer refs
    version 1   a file for each branch and tag, and `config.yaml`

They are read before anything is copied. A new copy gets them after all of it; to one that is there
they are joined (joining.py), by updates of its entry point.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Protocol

from frazil.assets.entry_file import create_entry
from frazil.assets.files import Files
from frazil.assets.layout import (
    CONFIG_YAML,
    OVERWRITTEN,
    REFS,
    REPO_INFO,
    V1_MAIN_BRANCH,
    branch_key,
    tag_key,
    tombstone_key,
)
from frazil.clock import Clock
from frazil.errors import (
    ConflictError,
    InternalError,
    InvalidInputError,
    ObjectNotFoundError,
    PreconditionFailedError,
)
from frazil.format.config_codec import decode_config_yaml
from frazil.format.generation import CURRENT, Generation
from frazil.format.ref_file import encode_ref
from frazil.format.repo_info import RepoInfo, decode_repo_info, encode_repo_info
from frazil.maintenance.copying.joining import join, require_joinable
from frazil.maintenance.copying.refs import choose_refs, chooses_main, tips_of
from frazil.maintenance.id_sets import IdSet
from frazil.maintenance.migrate.heads import prefetched
from frazil.maintenance.migrate.listing import in_order, with_history
from frazil.objectstore.protocol import ObjectStore
from frazil.repo.refs import MAIN
from frazil.repo.repository import Repository

type Versions = Mapping[str, str]
"""By key, what was found at the target."""


class Entry(Protocol):
    """How a version of the format keeps its refs."""

    @property
    def joined(self) -> RepoInfo | None:
        """Refs that are joined to a repository that is there; None if it is replaced."""
        ...

    def find(self, target: ObjectStore) -> Versions:
        """The repository at the target, if any. Raises ConflictError if it cannot be joined."""
        ...

    def publish(self, target: ObjectStore, found: Versions) -> bool:
        """Makes the copy a repository, or replaces one; False if there is nothing to do."""
        ...


def publish_entry(
    entry: Entry, target: ObjectStore, found: Versions, settled: IdSet, clock: Clock
) -> bool:
    """Makes what was copied visible; True if there was anything new. Raises ConflictError.

    `settled` are snapshots of the target that the copy relies on: see `join`.
    """
    refs = entry.joined
    if found and refs is not None:
        return join(Repository.open(target, clock=clock), refs, settled)
    return entry.publish(target, found)


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
    invents_main: bool = field(default=False, kw_only=True)  # main was not chosen; see choose_refs

    @property
    def joined(self) -> RepoInfo | None:
        return _joined(self.info, invents_main=self.invents_main)

    def find(self, target: ObjectStore) -> Versions:
        require_absent(target, V1_MAIN_BRANCH, version=1)
        try:
            blob = target.get(REPO_INFO)
        except ObjectNotFoundError:
            return {}
        refs = _joined(self.info, invents_main=self.invents_main)
        require_joinable(decode_repo_info(blob.data), refs)
        return {REPO_INFO: blob.version}

    def publish(self, target: ObjectStore, found: Versions) -> bool:
        del found
        with moved_is_conflict():
            create_entry(target, REPO_INFO, self.data)
        return True


@dataclass(frozen=True, slots=True, eq=False)
class RefFiles:
    """Version 1. The branch main is written last: before it there is no repository."""

    source: ObjectStore
    info: RepoInfo
    config: bytes | None
    invents_main: bool = field(default=False, kw_only=True)

    @property
    def joined(self) -> RepoInfo | None:
        config = None if self.config is None else decode_config_yaml(self.config)
        return replace(_joined(self.info, invents_main=self.invents_main), config=config)

    def find(self, target: ObjectStore) -> Versions:
        require_absent(target, REPO_INFO, version=2)
        try:
            blob = target.get(V1_MAIN_BRANCH)
        except ObjectNotFoundError:
            return {}
        refs = _joined(self.info, invents_main=self.invents_main)
        require_joinable(Repository.open(target).repo_info(), refs)
        return {V1_MAIN_BRANCH: blob.version}

    def publish(self, target: ObjectStore, found: Versions) -> bool:
        del found
        files = self._files(target)
        main = files.pop(V1_MAIN_BRANCH)
        # Without a branch main, refs that are there were left by an interrupted copy.
        target.delete([one.key for one in target.list(REFS) if one.key not in files])
        if self.config is not None:
            target.put(CONFIG_YAML, self.config)
        for key, data in files.items():
            target.put(key, data)
        target.sync()
        with moved_is_conflict():
            create_entry(target, V1_MAIN_BRANCH, main)
        return True

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


@dataclass(frozen=True, slots=True, eq=False)
class JoinedRefs:
    """Branches and tags for a repository of either version, which keeps its settings."""

    info: RepoInfo
    invents_main: bool

    @property
    def joined(self) -> RepoInfo | None:
        return replace(_joined(self.info, invents_main=self.invents_main), config=None)

    def find(self, target: ObjectStore) -> Versions:
        refs = _joined(self.info, invents_main=self.invents_main)
        require_joinable(Repository.open(target).repo_info(), refs)
        return {"": ""}

    def publish(self, target: ObjectStore, found: Versions) -> bool:
        raise InternalError(f"refs alone make no repository: {found!r} at {target!r}")


def _read_repo_file(repository: Repository, refs: Sequence[str] | None) -> Origin:
    store = repository.store
    data = bytes(store.get(REPO_INFO).data)
    info = decode_repo_info(data)
    chosen = choose_refs(info, refs, clock=repository.clock)
    return Origin(
        info=chosen,
        kept=() if refs is not None else tuple(one.key for one in store.list(OVERWRITTEN)),
        entry=RepoFile(
            chosen,
            data if refs is None else encode_repo_info(chosen),
            invents_main=not chooses_main(refs),
        ),
    )


def _read_ref_files(repository: Repository, refs: Sequence[str] | None, files: Files) -> Origin:
    found = in_order(with_history(repository.repo_info(), prefetched(files)))
    info = choose_refs(found, refs, clock=repository.clock)
    try:
        config: bytes | None = bytes(repository.store.get(CONFIG_YAML).data)
    except ObjectNotFoundError:
        config = None
    entry = RefFiles(repository.store, info, config, invents_main=not chooses_main(refs))
    return Origin(info=info, kept=(), entry=entry)


def exists(store: ObjectStore, key: str) -> bool:
    try:
        store.head(key)
    except ObjectNotFoundError:
        return False
    return True


def require_absent(target: ObjectStore, key: str, *, version: int) -> None:
    if exists(target, key):
        raise ConflictError(message=f"there is a repository of version {version} at the target")


def _joined(info: RepoInfo, *, invents_main: bool) -> RepoInfo:
    if not invents_main:
        return info
    branches = {name: row for name, row in info.branches.items() if name != MAIN}
    return replace(info, branches=branches)


@contextmanager
def moved_is_conflict() -> Iterator[None]:
    try:
        yield
    except PreconditionFailedError as error:
        raise ConflictError(message="the target was changed while it was copied to") from error
