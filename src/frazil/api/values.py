"""Public values: arguments and results of methods, with ids as text."""

from dataclasses import field
from datetime import UTC, datetime
from operator import index
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from frazil.clock import from_datetime, to_datetime
from frazil.dataclass import dataclass
from frazil.engine.refs import repo_settings
from frazil.engine.refs.ancestry import SnapshotBlock, SnapshotList
from frazil.engine.refs.repo_settings import Flag, require_version_2
from frazil.engine.refs.version import Branch, BranchAsOf, Exactly, Tag, Version
from frazil.engine.repository import Repository
from frazil.engine.session import session
from frazil.errors import require_type
from frazil.format import update_log
from frazil.format.config import NamedIntEnum
from frazil.format.generation import Generation
from frazil.format.records import Displayed, View, fields_of
from frazil.format.snapshot import ManifestFile
from frazil.ids import SnapshotId
from frazil.lazy import lazy_module

if TYPE_CHECKING:
    from frazil.api import display
    from frazil.engine.changes import diff
else:  # only what is shown needs it
    display = lazy_module("frazil.api.display")
    diff = lazy_module("frazil.engine.changes.diff")

type AlphaVersion = Literal["alpha1", "alpha2"]
CommitMethod = Literal["new_commit", "amend"]

_LARGEST_VERSION = 255  # a byte of the file header
_CHUNKS_SHOWN = 10  # of each array, when a diff is printed


class SpecVersion(NamedIntEnum):
    """Generations of the storage format."""

    v1 = 1
    v2 = 2

    def __str__(self) -> str:
        return super().__str__() + " (current)" * (self is SpecVersion.current())

    @staticmethod
    def current() -> "SpecVersion":
        return SpecVersion.v2


class SessionMode(NamedIntEnum):
    readonly = 0
    writable = 1
    rearrange = 2

    @classmethod
    def of(cls, mode: session.SessionMode) -> "SessionMode":
        return cls[mode.value]


class RepoAvailability(NamedIntEnum):
    online = 0
    read_only = 1
    offline = 2  # in the format, though the reference has no name for it


@dataclass(frozen=True, slots=True)
class RepoStatus(Displayed):
    availability: RepoAvailability
    set_at: datetime = None  # type: ignore[assignment]  # None is replaced: by the present time
    limited_availability_reason: str | None = None

    def __post_init__(self) -> None:
        require_type(self.availability, RepoAvailability)
        given: object = self.set_at
        if given is None:
            object.__setattr__(self, "set_at", datetime.now(UTC))
        from_datetime(self.set_at)  # a time without a zone could be any

    def stored(self) -> update_log.RepoStatus:
        return update_log.RepoStatus(
            update_log.Availability(int(self.availability)),
            from_datetime(self.set_at),
            self.limited_availability_reason,
        )

    @classmethod
    def of(cls, status: update_log.RepoStatus) -> "RepoStatus":
        return cls(
            RepoAvailability(int(status.availability)),
            to_datetime(status.set_at_us),
            status.reason,
        )


def require_status(status: object) -> RepoStatus:
    if not isinstance(status, RepoStatus):
        raise TypeError(f"{type(status).__name__!r} object is not a RepoStatus")
    return status


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureFlag(Displayed):
    """An operation that a repository can forbid; `setting` is None where the default holds."""

    id: int
    name: str
    default_enabled: bool
    setting: bool | None

    @property
    def enabled(self) -> bool:
        return self.default_enabled if self.setting is None else self.setting

    def __view__(self) -> View:
        view = fields_of(self)
        return View(view.title, [*view.fields, ("enabled", self.enabled)])

    @classmethod
    def of(cls, flag: Flag, setting: bool | None) -> "FeatureFlag":  # noqa: FBT001 -- three values
        return cls(
            id=flag.id, name=flag.name, default_enabled=flag.default_enabled, setting=setting
        )


def feature_flags(repository: Repository) -> list[FeatureFlag]:
    info = repository.info_of_version_2()
    return [
        FeatureFlag.of(flag, repo_settings.flag_setting(info, flag)) for flag in repo_settings.FLAGS
    ]


def set_feature_flag(repository: Repository, name: str, setting: bool | None) -> None:  # noqa: FBT001 -- three values
    if setting is not None and not isinstance(setting, bool):
        raise TypeError(f"{type(setting).__name__!r} object is not a bool")
    require_type(name, str)
    require_version_2(repository.spec_version)
    repository.set_flag(repo_settings.require_flag(name), setting)


class SnapshotInfo(Displayed):
    """One snapshot of a history.

    Its fields are read on first access, together with those of its neighbours: a history has many
    snapshots, and most are skipped.
    """

    __slots__ = ("_at", "_block")

    def __init__(self, block: SnapshotBlock, at: int) -> None:
        self._block = block
        self._at = at

    @property
    def id(self) -> str:
        return self._block.ids[self._at]

    @property
    def parent_id(self) -> str | None:
        return self._block.parent_ids[self._at]

    @property
    def written_at(self) -> datetime:
        return to_datetime(self._block.flushed_at_us[self._at])

    @property
    def message(self) -> str:
        return self._block.messages[self._at]

    @property
    def metadata(self) -> dict[str, Any]:
        return self._block.metadata[self._at]

    def __view__(self) -> View:
        names = ("id", "parent_id", "written_at", "message", "metadata")
        return View("frazil.SnapshotInfo", [(name, getattr(self, name)) for name in names])

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.__view__().fields)
        return f"SnapshotInfo({shown})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SnapshotInfo):
            return NotImplemented
        return self.__view__().fields == other.__view__().fields

    def __hash__(self) -> int:
        return hash(self.id)

    def __reduce__(self) -> tuple[object, ...]:  # alone, without its neighbours
        block, at = self._block, slice(self._at, self._at + 1)
        alone = SnapshotList(
            ids=block.ids[at],
            parent_ids=block.parent_ids[at],
            flushed_at_us=block.flushed_at_us[at],
            messages=block.messages[at],
            metadata=block.metadata[at],
        )
        return SnapshotInfo, (alone, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFileInfo(Displayed):
    id: str
    size_bytes: int
    num_chunk_refs: int

    @classmethod
    def of(cls, file: ManifestFile) -> "ManifestFileInfo":
        return cls(id=str(file.id), size_bytes=file.size_bytes, num_chunk_refs=file.num_refs)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Diff(Displayed):
    """Paths of what is new, gone or different, and indices of changed chunks by array."""

    new_groups: set[str]
    new_arrays: set[str]
    deleted_groups: set[str]
    deleted_arrays: set[str]
    updated_groups: set[str]
    updated_arrays: set[str]
    chunk_indices: dict[str, npt.NDArray[np.uint32]]
    """(n, dimensions) by path: a few bytes for each chunk, of which there may be millions."""
    moved_nodes: list[tuple[str, str]]
    _lists: dict[str, list[list[int]]] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of(cls, found: "diff.Diff") -> "Diff":
        return cls(
            new_groups=set(found.new_groups.texts),
            new_arrays=set(found.new_arrays.texts),
            deleted_groups=set(found.deleted_groups.texts),
            deleted_arrays=set(found.deleted_arrays.texts),
            updated_groups=set(found.updated_groups.texts),
            updated_arrays=set(found.updated_arrays.texts),
            chunk_indices={str(path): index for path, index in found.updated_chunks.items()},
            moved_nodes=[(str(move.from_path), str(move.to_path)) for move in found.moved],
        )

    @property
    def updated_chunks(self) -> dict[str, list[list[int]]]:
        """The same as lists of Python's numbers, made when first asked for: some 140 bytes each."""
        if not self._lists:
            self._lists.update({path: each.tolist() for path, each in self.chunk_indices.items()})
        return self._lists

    def is_empty(self) -> bool:
        return not (any(self._node_changes()) or self.chunk_indices)

    def _node_changes(self) -> tuple[object, ...]:
        return (
            self.new_groups, self.new_arrays, self.deleted_groups, self.deleted_arrays,
            self.updated_groups, self.updated_arrays, self.moved_nodes,
        )  # fmt: skip

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Diff):
            return NotImplemented
        mine, theirs = self.chunk_indices, other.chunk_indices
        return (
            self._node_changes() == other._node_changes()
            and mine.keys() == theirs.keys()
            and all(np.array_equal(index, theirs[path]) for path, index in mine.items())
        )

    __hash__ = None  # type: ignore[assignment]  # its fields can be changed

    def __repr__(self) -> str:  # the fields may have thousands of chunk indices
        return str(self)

    def __view__(self) -> View:
        """Only what there is: a notebook need not list what did not change."""
        sections = self._sections()
        sections["Chunks updated"] = [
            f"{path}: {len(chunks)} chunk{'' if len(chunks) == 1 else 's'}"
            for path, chunks in sorted(self.chunk_indices.items())
        ]
        return display.diff_view("frazil.Diff", sections)

    def _sections(self) -> dict[str, list[str]]:
        return {
            "Groups created": sorted(self.new_groups),
            "Arrays created": sorted(self.new_arrays),
            "Group definitions updated": sorted(self.updated_groups),
            "Array definitions updated": sorted(self.updated_arrays),
            "Groups deleted": sorted(self.deleted_groups),
            "Arrays deleted": sorted(self.deleted_arrays),
            "Chunks updated": _format_chunks(self.chunk_indices),
            "Nodes moved/renamed": [f"{start} -> {end}" for start, end in self.moved_nodes],
        }

    def __str__(self) -> str:
        return "".join(
            f"{title}:\n" + "".join(f"    {line}\n" for line in lines) + end
            for title, lines in self._sections().items()
            if lines
            # as the reference prints it, to the last line
            for end in ("" if title == "Chunks updated" else "\n",)
        )


def _format_chunks(chunks: dict[str, npt.NDArray[np.uint32]]) -> list[str]:
    lines = []
    for path, indices in sorted(chunks.items()):
        lines.append(f"{path}:")
        lines += [f"    {index}" for index in indices[:_CHUNKS_SHOWN].tolist()]
        if len(indices) > _CHUNKS_SHOWN:
            lines.append(f"    ... {len(indices) - _CHUNKS_SHOWN} more")
    return lines


def require_version(
    *,
    branch: str | None,
    tag: str | None,
    snapshot_id: str | None,
    as_of: datetime | None = None,
) -> Version:
    """Raises ValueError unless exactly one is given, and `as_of` only with a branch."""
    for name in (branch, tag, snapshot_id):
        require_type(name, str | None)
    require_type(as_of, datetime | None)
    match branch, tag, snapshot_id, as_of:
        case (None, _, _, datetime()):
            raise ValueError("as_of argument must be provided together with a branch name")
        case (str(name), None, None, None):
            return Branch(name)
        case (str(name), None, None, datetime() as when):
            return BranchAsOf(name, from_datetime(when))
        case (None, str(name), None, None):
            return Tag(name)
        case (None, None, str(text), None):
            return Exactly(SnapshotId.parse(text))
        case _:
            raise ValueError("Must provide one of branch, tag, or snapshot_id")


def require_spec_version(version: SpecVersion | int | AlphaVersion | None) -> Generation:
    """Returns the generation of a repository to be created: by default the newest."""
    match version:
        case None:
            return Generation.V2
        case "alpha2":
            return Generation.A2E
        case "alpha1":
            return Generation.ALPHA1
    try:
        number = index(version)
    except TypeError:
        number = -1
    if not 0 <= number <= _LARGEST_VERSION:
        raise ValueError(f"Couldn't parse a valid version: {version!r}")
    match number:
        case SpecVersion.v2:
            return Generation.V2
        case SpecVersion.v1:
            return Generation.V1
    raise ValueError(f"Unsupported version {number}")
