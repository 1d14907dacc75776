"""Everything that frazil raises, in one tree.

    IcechunkError                        base; every error has `kind` and `message`
    ├── ConflictError                    another writer was faster: look again, then retry
    │   └── RebaseFailedError
    ├── NotFoundError                    also KeyError
    │   ├── NodeNotFoundError
    │   │   └── ValueNotFoundError       also FileNotFoundError: no value at a key of the store
    │   ├── SnapshotNotFoundError
    │   ├── RefNotFoundError
    │   └── RepositoryNotFoundError
    ├── AlreadyExistsError
    ├── ReadOnlyError
    │   └── ReadOnlyStoreError           also ValueError, which zarr's Store contract asks for
    ├── InvalidInputError                also ValueError: the caller passed something wrong
    │   └── UnknownKeyError              also FileNotFoundError: no key of a Zarr store
    ├── SessionStateError                right call, wrong moment
    ├── StorageError                     the store failed or is missing an object
    │   ├── ObjectNotFoundError          also FileNotFoundError
    │   ├── ObjectChangedError           not the version that a virtual chunk was made of
    │   └── PreconditionFailedError      a conditional write lost its race
    ├── FormatError                      bytes that are not what they should be
    ├── JavaNotFoundError                Spark needs one and there is none
    └── InternalError                    a bug in frazil

Names and `kind` codes are those of the `icechunk` package, so that a handler written for one
works with the other; ReadOnlyStoreError, ValueNotFoundError, UnknownKeyError, JavaNotFoundError
and the leaves under StorageError are frazil's own. A `kind` never changes its meaning and is never
removed.
"""

from enum import IntEnum
from types import UnionType
from typing import ClassVar

from frazil.dataclass import dataclass

_PACKAGE = __name__.partition(".")[0]


class IcechunkError(Exception):
    """Base of the tree. `kind` is a stable code for programs, `message` is for people.

    `args` are the arguments of the constructor, so `type(error)(*error.args)` is the same error.
    """

    default_kind: ClassVar[str] = "unknown"

    def __init__(self, message: str, kind: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.kind = kind or self.default_kind
        self.args = (message, self.kind)

    def __str__(self) -> str:  # KeyError would show the repr
        return self.message

    def __repr__(self) -> str:
        return f'{_PACKAGE}.{type(self).__name__}(message="{self.message}", kind="{self.kind}")'

    def __reduce__(self) -> tuple[object, ...]:
        return (_revive, (type(self), self.args, self.__dict__))


def _revive(cls: type[IcechunkError], args: tuple[object, ...], state: dict[str, object]) -> object:
    """A pickled error, without calling an `__init__` whose signature a subclass changed."""
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class ConflictError(IcechunkError):
    """`expected_parent` is where the caller took a branch to be, `actual_parent` where it is."""

    default_kind = "commit-conflict"

    def __init__(
        self,
        expected_parent: str | None = None,
        actual_parent: str | None = None,
        message: str | None = None,
        kind: str | None = None,
    ) -> None:
        if message is None:
            message = (
                f"Failed to commit, expected parent: {expected_parent!r},"
                f" actual parent: {actual_parent!r}"
            )
        super().__init__(message, kind or self.default_kind)
        self.args = (expected_parent, actual_parent, message, self.kind)
        self.expected_parent = expected_parent
        self.actual_parent = actual_parent

    def __repr__(self) -> str:
        return (
            f"{_PACKAGE}.{type(self).__name__}(expected_parent={self.expected_parent},"
            f" actual_parent={self.actual_parent})"
        )


class ConflictType(IntEnum):
    """Kinds of conflict between two sets of changes; "ours" are those being rebased."""

    NewNodeConflictsWithExistingNode = 1
    NewNodeInInvalidGroup = 2
    ZarrMetadataDoubleUpdate = 3
    ZarrMetadataUpdateOfDeletedArray = 4
    ZarrMetadataUpdateOfDeletedGroup = 5
    ChunkDoubleUpdate = 6
    ChunksUpdatedInDeletedArray = 7
    ChunksUpdatedInUpdatedArray = 8
    DeleteOfUpdatedArray = 9
    DeleteOfUpdatedGroup = 10
    MoveOperationCannotBeRebased = 11

    def __str__(self) -> str:
        """The name in words."""
        words = "".join(f" {one.lower()}" if one.isupper() else one for one in self.name)
        return words.strip().capitalize()

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)


@dataclass(frozen=True, slots=True)
class Conflict:
    """One contradiction, at the node at `path`; chunks are listed if it is about chunks."""

    conflict_type: ConflictType
    path: str
    conflicted_chunks: list[list[int]] | None = None


class RebaseFailedError(ConflictError):
    """Changes that cannot be carried over `snapshot`, and all the reasons."""

    default_kind = "rebase-failed"

    def __init__(self, snapshot: str, conflicts: list[Conflict]) -> None:
        found = f"{len(conflicts)} conflicts found"
        super().__init__(message=f"Rebase failed on snapshot {snapshot}: {found}")
        self.args = (snapshot, conflicts)
        self.snapshot = snapshot
        self.conflicts = conflicts

    def __repr__(self) -> str:
        return (
            f'{_PACKAGE}.{type(self).__name__}(snapshot="{self.snapshot}",'
            f" conflicts={self.conflicts})"
        )


class NotFoundError(IcechunkError, KeyError):
    default_kind = "key-not-found"


class NodeNotFoundError(NotFoundError):
    default_kind = "node-not-found"


class ValueNotFoundError(NodeNotFoundError, FileNotFoundError):
    """The Zarr store has no value at a key; FileNotFoundError is zarr's contract."""


class SnapshotNotFoundError(NotFoundError):
    default_kind = "snapshot-not-found"


class RefNotFoundError(NotFoundError):
    default_kind = "ref-not-found"


class RepositoryNotFoundError(NotFoundError):
    default_kind = "repository-not-found"


class AlreadyExistsError(IcechunkError):
    default_kind = "node-already-exists"


class ReadOnlyError(IcechunkError):
    default_kind = "read-only-session"


class ReadOnlyStoreError(ReadOnlyError, ValueError):
    default_kind = "read-only-store"


class InvalidInputError(IcechunkError, ValueError):
    default_kind = "invalid-key"


class UnknownKeyError(InvalidInputError, FileNotFoundError):
    """A key that no value of a Zarr store can have; FileNotFoundError is zarr's contract."""


class SessionStateError(IcechunkError):
    default_kind = "not-allowed"


class StorageError(IcechunkError):
    default_kind = "object-store"


class ObjectNotFoundError(StorageError, FileNotFoundError):
    """No object at `key`."""

    default_kind = "object-not-found"

    def __init__(self, key: str) -> None:
        super().__init__(f"object not found: {key!r}", self.default_kind)
        self.args = (key,)
        self.key = key


class ObjectChangedError(StorageError):
    """The object at `key` is not the one that a virtual chunk was made of.

    `expected` and `found` say it in words; what was found is not always told by the store.
    """

    default_kind = "virtual-chunk-modified"

    def __init__(self, key: str, expected: str, found: str | None = None) -> None:
        seen = "" if found is None else f", found {found}"
        super().__init__(
            f"the checksum of the object owning the virtual chunk has changed ({key}):"
            f" expected {expected}{seen}",
            self.default_kind,
        )
        self.args = (key, expected, found)
        self.key = key
        self.expected = expected
        self.found = found


class PreconditionFailedError(StorageError):
    """A conditional write that was not done: `key` is not in the state the writer expected."""

    default_kind = "object-store"

    def __init__(self, key: str, expected: str) -> None:
        message = f"conditional write of {key!r} refused: expected {expected}"
        super().__init__(message, self.default_kind)
        self.args = (key, expected)
        self.key = key


class FormatError(IcechunkError):
    """Bytes that are damaged, foreign or from the future.

    `where` names the file once a layer that knows it has seen the error.
    """

    default_kind = "deserialization"

    def __init__(self, message: str, kind: str | None = None, *, where: str | None = None) -> None:
        super().__init__(f"{where}: {message}" if where else message, kind)
        self.where = where

    def at(self, where: str) -> "FormatError":
        """The same error, naming the file it is about."""
        return self if self.where else FormatError(self.message, kind=self.kind, where=where)


class JavaNotFoundError(IcechunkError):
    default_kind = "java-not-found"


class InternalError(IcechunkError):
    default_kind = "unknown"


def require_type(value: object, expected: type | UnionType) -> None:
    """Raises TypeError unless the value is of the expected type, as compiled packages do."""
    if not isinstance(value, expected):
        raise TypeError(
            f"{type(value).__name__!r} object is not an instance of"
            f" {getattr(expected, '__name__', str(expected))!r}"
        )
