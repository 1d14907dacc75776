"""Refs of a version 1 repository, read from their files as they are asked for.

Asking for one ref reads one file and lists nothing: credentials that may get but not list are
enough, and so is a plain web server. Only asking for all of them lists `refs/`.
"""

from collections.abc import Callable, ItemsView, Iterator, KeysView, Sequence, ValuesView
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, overload

from frazil.assets.caches import TagFile
from frazil.assets.files import Files, naming
from frazil.assets.layout import REFS, branch_key, ref_of_key, tag_key, tombstone_key
from frazil.errors import (
    InvalidInputError,
    ObjectNotFoundError,
    RefNotFoundError,
    RepositoryNotFoundError,
)
from frazil.format.ref_file import decode_ref
from frazil.format.repo_info import RepoInfo
from frazil.format.update_log import Availability, RepoStatus
from frazil.ids import SnapshotId
from frazil.repo.refs import MAIN
from frazil.repo.snapshot_chain import SnapshotChain

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
        with naming(key):
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
    with naming(key):
        return StoredRef(decode_ref(blob.data), blob.version)


def require_name(name: str) -> None:
    if "/" in name:
        raise InvalidInputError(f"invalid ref name `{name}`", kind="invalid-ref-name")
