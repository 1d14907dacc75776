"""The entry point as it was last seen."""

from dataclasses import dataclass

from frazil.format.repo_info import RepoInfo
from frazil.objectstore.protocol import Blob


@dataclass(frozen=True, slots=True, eq=False)
class StoredRepoInfo:
    """A repo info file as it was read or written: what to compare with when replacing it."""

    info: RepoInfo
    blob: Blob


@dataclass(slots=True)
class Newest:
    """The newest repo info that this process has seen: equal bytes need not be decoded again."""

    stored: StoredRepoInfo | None = None
