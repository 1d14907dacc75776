"""What a clone begins with and ends with: the refs of its source, which lead to everything else.

    version 2   one file, `repo`, copied as it is or made anew for fewer refs
    version 1   a file for each branch and tag, and `config.yaml`

Both are read before anything is copied, and written after all of it, each where the target is still
as it was found.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from frazil.assets.layout import (
    CONFIG_YAML,
    OVERWRITTEN,
    REFS,
    REPO_INFO,
    TRANSACTIONS,
    V1_MAIN_BRANCH,
    branch_key,
    ref_of_key,
    snapshot_key,
    tag_key,
    tombstone_key,
    transaction_key,
)
from frazil.errors import (
    ConflictError,
    InvalidInputError,
    ObjectNotFoundError,
    PreconditionFailedError,
    RefNotFoundError,
)
from frazil.format.ref_file import decode_ref, encode_ref
from frazil.format.repo_info import RepoInfo, decode_repo_info, encode_repo_info
from frazil.ids import SnapshotId
from frazil.objectstore.protocol import Absent, Blob, Matches, ObjectStore, Precondition
from frazil.repo.repository import Repository
from frazil.spark.pipelines.clone_refs import MAIN, choose_refs

type Versions = Mapping[str, str]
"""By key, what was found at the target."""


class Entry(Protocol):
    """How a version of the format keeps its refs."""

    def find(self, target: ObjectStore, known: frozenset[SnapshotId]) -> Versions:
        """What is there. Raises ConflictError if it is more than an earlier clone."""
        ...

    def publish(self, target: ObjectStore, found: Versions) -> None:
        """Makes the clone a repository, or brings it up to date. Raises ConflictError."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """A source, as of now, with the refs that were chosen."""

    branches: Mapping[str, SnapshotId]
    tags: Mapping[str, SnapshotId]
    snapshots: tuple[SnapshotId, ...]
    keys: tuple[str, ...]  # of transaction logs, and earlier versions of the entry point
    entry: Entry

    def find_clone(self, target: ObjectStore) -> Versions:
        return self.entry.find(target, frozenset(self.snapshots))


def read_origin(repository: Repository, refs: Sequence[str] | None) -> Origin:
    """Raises RefNotFoundError for refs that are not there."""
    match repository.spec_version:
        case 2:
            return _read_repo_file(repository.store, refs)
        case 1:
            return _read_ref_files(repository, refs)
        case _:
            raise InvalidInputError("only repositories of version 1 and 2 can be cloned")


@dataclass(frozen=True, slots=True)
class RepoFile:
    """Version 2."""

    data: bytes

    def find(self, target: ObjectStore, known: frozenset[SnapshotId]) -> Versions:
        _require_absent(target, V1_MAIN_BRANCH, version=1)
        try:
            blob: Blob = target.get(REPO_INFO)
        except ObjectNotFoundError:
            return {}
        there = decode_repo_info(blob.data)
        for name, row in {**there.branches, **there.tags}.items():
            _require_known(name, there.snapshots.id(row), known)
        return {REPO_INFO: blob.version}

    def publish(self, target: ObjectStore, found: Versions) -> None:
        with _moved_is_conflict():
            target.put(REPO_INFO, self.data, when=_unchanged(found, REPO_INFO))


@dataclass(frozen=True, slots=True)
class RefFiles:
    """Version 1. The branch main is written last: before it there is no repository."""

    source: ObjectStore
    branches: Mapping[str, SnapshotId]
    tags: Mapping[str, SnapshotId]
    deleted_tags: tuple[str, ...]
    config: bytes | None

    def find(self, target: ObjectStore, known: frozenset[SnapshotId]) -> Versions:
        _require_absent(target, REPO_INFO, version=2)
        found = {}
        for info in target.list(REFS):
            ref = ref_of_key(info.key)
            if ref is not None:
                blob = target.get(info.key)
                if not ref[2]:
                    self._require_known(ref[1], decode_ref(blob.data), known)
                found[info.key] = blob.version
        return found

    def _require_known(self, name: str, tip: SnapshotId, known: frozenset[SnapshotId]) -> None:
        """Snapshots that no ref of the source leads to any more are listed nowhere."""
        if tip not in known and not _exists(self.source, snapshot_key(tip)):
            _require_known(name, tip, known)

    def publish(self, target: ObjectStore, found: Versions) -> None:
        if self.config is not None:
            target.put(CONFIG_YAML, self.config)
            target.sync()
        tags = {tag_key(name): encode_ref(tip) for name, tip in self.tags.items()}
        gone = {tombstone_key(name): b"" for name in self.deleted_tags}
        tips = {branch_key(name): encode_ref(tip) for name, tip in self.branches.items()}
        main = {V1_MAIN_BRANCH: tips.pop(V1_MAIN_BRANCH)}
        made = {**tags, **gone, **tips, **main}
        with _moved_is_conflict():
            for key, data in made.items():
                target.put(key, data, when=_unchanged(found, key))
        target.delete([key for key in found if key not in made])


def _read_repo_file(store: ObjectStore, refs: Sequence[str] | None) -> Origin:
    data = bytes(store.get(REPO_INFO).data)
    info = decode_repo_info(data)
    chosen = choose_refs(info, refs)
    rows = range(len(chosen.snapshots))
    ids = tuple(chosen.snapshots.id(row) for row in rows)
    keys = [transaction_key(one) for one in ids]
    for row in rows:  # logs that outlived their snapshots
        keys += [transaction_key(SnapshotId(raw)) for raw in chosen.snapshots.pruned_logs(row)]
    if refs is None:
        keys += [one.key for one in store.list(OVERWRITTEN)]
    return Origin(
        branches=_tips(chosen, chosen.branches),
        tags=_tips(chosen, chosen.tags),
        snapshots=ids,
        keys=tuple(keys),
        entry=RepoFile(data if refs is None else encode_repo_info(chosen)),
    )


def _read_ref_files(repository: Repository, refs: Sequence[str] | None) -> Origin:
    info, store = repository.repo_info(), repository.store
    branches, tags = _tips(info, info.branches), _tips(info, info.tags)
    deleted = info.deleted_tags
    if refs is not None:
        unknown = [name for name in refs if name not in branches and name not in tags]
        if unknown or not refs:
            raise RefNotFoundError(
                f"no branch or tag {', '.join(map(repr, unknown)) or 'is named'}"
            )
        first = branches.get(refs[0]) or tags[refs[0]]
        branches = {MAIN: first} | {n: tip for n, tip in branches.items() if n in refs}
        tags, deleted = {n: tip for n, tip in tags.items() if n in refs}, ()
    rows = {
        row
        for tip in {*branches.values(), *tags.values()}
        for row in info.snapshots.ancestors(info.snapshots.find(tip))
    }
    ids = tuple(info.snapshots.id(row) for row in sorted(rows))
    logs = {one.key for one in store.list(TRANSACTIONS)}  # the first snapshot has none
    return Origin(
        branches=branches,
        tags=tags,
        snapshots=ids,
        keys=tuple(key for key in map(transaction_key, ids) if key in logs),
        entry=RefFiles(store, branches, tags, deleted, _config_of(store)),
    )


def _config_of(store: ObjectStore) -> bytes | None:
    try:
        return bytes(store.get(CONFIG_YAML).data)
    except ObjectNotFoundError:
        return None


def _tips(info: RepoInfo, refs: Mapping[str, int]) -> dict[str, SnapshotId]:
    return {name: info.snapshots.id(row) for name, row in refs.items()}


def _unchanged(found: Versions, key: str) -> Precondition:
    return Matches(found[key]) if key in found else Absent()


def _require_known(name: str, tip: SnapshotId, known: frozenset[SnapshotId]) -> None:
    if tip not in known:
        raise ConflictError(
            f"{name!r} at the target is at {tip}, which the source does not have: it is another"
            " repository, or was changed since it was cloned"
        )


def _require_absent(target: ObjectStore, key: str, *, version: int) -> None:
    if _exists(target, key):
        raise ConflictError(f"there is a repository of version {version} at the target")


def _exists(store: ObjectStore, key: str) -> bool:
    try:
        store.head(key)
    except ObjectNotFoundError:
        return False
    return True


@contextmanager
def _moved_is_conflict() -> Iterator[None]:
    try:
        yield
    except PreconditionFailedError as error:
        raise ConflictError("the target was changed while it was cloned to") from error
