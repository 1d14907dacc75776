"""What questions about a repository are answered with: plain values, ids as text."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from frazil.clock import from_datetime, to_datetime
from frazil.errors import require_type
from frazil.format import update_log
from frazil.format.config import NamedIntEnum
from frazil.format.records import Displayed, View, fields_of
from frazil.format.snapshot import ManifestFile
from frazil.repo import diff, session
from frazil.repo.history import SnapshotBlock, SnapshotList
from frazil.repo.repo_settings import Flag

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


class SnapshotInfo(Displayed):
    """One snapshot of a history.

    What it says is read when somebody asks, together with that of its neighbours: a history has
    many snapshots, and most are passed by.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff(Displayed):
    """Paths of what is new, gone or different; `updated_chunks` has chunk indices by array."""

    new_groups: set[str]
    new_arrays: set[str]
    deleted_groups: set[str]
    deleted_arrays: set[str]
    updated_groups: set[str]
    updated_arrays: set[str]
    updated_chunks: dict[str, list[list[int]]]
    moved_nodes: list[tuple[str, str]]

    @classmethod
    def of(cls, found: diff.Diff) -> "Diff":
        return cls(
            new_groups=set(found.new_groups.texts),
            new_arrays=set(found.new_arrays.texts),
            deleted_groups=set(found.deleted_groups.texts),
            deleted_arrays=set(found.deleted_arrays.texts),
            updated_groups=set(found.updated_groups.texts),
            updated_arrays=set(found.updated_arrays.texts),
            updated_chunks={str(path): i.tolist() for path, i in found.updated_chunks.items()},
            moved_nodes=[(str(move.from_path), str(move.to_path)) for move in found.moved],
        )

    def is_empty(self) -> bool:
        return self == _NO_DIFF

    def __repr__(self) -> str:  # the fields may have thousands of chunk indices
        return str(self)

    def __str__(self) -> str:
        sections = {
            "Groups created": sorted(self.new_groups),
            "Arrays created": sorted(self.new_arrays),
            "Group definitions updated": sorted(self.updated_groups),
            "Array definitions updated": sorted(self.updated_arrays),
            "Groups deleted": sorted(self.deleted_groups),
            "Arrays deleted": sorted(self.deleted_arrays),
            "Chunks updated": _format_chunks(self.updated_chunks),
            "Nodes moved/renamed": [f"{start} -> {end}" for start, end in self.moved_nodes],
        }
        return "".join(
            f"{title}:\n" + "".join(f"    {line}\n" for line in lines) + end
            for title, lines in sections.items()
            if lines
            # as the reference prints it, to the last line
            for end in ("" if title == "Chunks updated" else "\n",)
        )


_NO_DIFF = Diff.of(diff.Diff())


def _format_chunks(chunks: dict[str, list[list[int]]]) -> list[str]:
    lines = []
    for path, indices in sorted(chunks.items()):
        lines.append(f"{path}:")
        lines += [f"    {index}" for index in indices[:_CHUNKS_SHOWN]]
        if len(indices) > _CHUNKS_SHOWN:
            lines.append(f"    ... {len(indices) - _CHUNKS_SHOWN} more")
    return lines
