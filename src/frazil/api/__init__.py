"""The public classes, with Icechunk's names and signatures."""

from frazil.api.repository import Repository
from frazil.api.session import IcechunkStore, Session
from frazil.api.storage import Storage, in_memory_storage, local_filesystem_storage
from frazil.api.updates import Update, UpdateType
from frazil.api.values import (
    Diff,
    ManifestFileInfo,
    RepoAvailability,
    RepoStatus,
    SessionMode,
    SnapshotInfo,
    SpecVersion,
)
from frazil.errors import (
    AlreadyExistsError,
    ConflictError,
    FormatError,
    IcechunkError,
    InternalError,
    InvalidInputError,
    NodeNotFoundError,
    NotFoundError,
    ReadOnlyError,
    RebaseFailedError,
    RefNotFoundError,
    RepositoryNotFoundError,
    SessionStateError,
    SnapshotNotFoundError,
    StorageError,
)
from frazil.zarrstore.references import ChunkType
from frazil.zarrstore.virtual import VirtualChunkSpec
