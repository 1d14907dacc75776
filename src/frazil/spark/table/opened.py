"""Repositories as a scan sees them: pinned to a snapshot, described, read box by box."""

import hashlib
import json
import os
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from frazil.engine.refs import version as versions
from frazil.engine.repository import Repository
from frazil.engine.session.session import Session
from frazil.errors import InvalidInputError
from frazil.format.config_codec import encode_config
from frazil.ids import SnapshotId
from frazil.paths import NodePath
from frazil.spark.runtime.access import NO_ACCESS, AccessText, format_access, parse_access
from frazil.spark.runtime.storage_options import (
    PlaceText,
    format_path,
    format_place,
    open_place,
    place_of_options,
    with_prefix,
)
from frazil.spark.table.cf import Decoding, Values, decode
from frazil.spark.table.description import ArrayDescription, GroupDescription
from frazil.spark.table.options import ReadOptions, Version
from frazil.spark.table.scan_plan import Axis, Box, Run, runs
from frazil.spark.table.schema import ColumnPlan
from frazil.zarrstore.arrays import open_array, read_region

_WHOLE_COORDINATE = 2**20  # up to this many values a worker caches a coordinate, for its next task
_CACHED_COORDINATES = 256
_CACHED_VALUES = 4 * _WHOLE_COORDINATE  # of all coordinates of a version together


@runtime_checkable
class HasEngine(Protocol):
    """The public Repository."""

    @property
    def engine(self) -> Repository: ...


type RepositoryLike = str | os.PathLike[str] | Repository | HasEngine


@dataclass(frozen=True, slots=True)
class Pinned:
    """One version of one repository, which never changes; the key of what workers keep open.

    `settings` differs where the repository's configuration does: where virtual chunks are, for
    one, is not a matter of the snapshot.
    """

    place: PlaceText
    snapshot: str
    access: AccessText = NO_ACCESS
    settings: str = ""


def access_to(repository: RepositoryLike) -> AccessText:
    """Returns the access that an open repository was given."""
    if isinstance(repository, str | os.PathLike):
        return NO_ACCESS
    opened = repository if isinstance(repository, Repository) else repository.engine
    return format_access(opened.access)


def place_of(repository: RepositoryLike, storage: Mapping[str, object] | None = None) -> PlaceText:
    """Returns the place where executors find the repository, reached with `storage`."""
    if isinstance(repository, str | os.PathLike):
        path = format_path(os.fspath(repository))
        return place_of_options({"path": path.path, **with_prefix(storage)}) if storage else path
    if storage:
        raise InvalidInputError("`storage` goes with a location, not with an open repository")
    opened = repository if isinstance(repository, Repository) else repository.engine
    return format_place(opened.raw_store)


def pin(options: ReadOptions) -> Pinned:
    """Resolves the version to its current snapshot. Raises the tree's error for what is missing."""
    place = PlaceText(options.path, options.secret_storage)
    repository = open_repository(place, options.access)
    session = repository.readonly_session(engine_version(options.version))
    return Pinned(place, str(session.snapshot_id), options.access, settings_digest(repository))


def settings_digest(repository: Repository) -> str:
    """Differs where the configuration does: see Pinned."""
    text = json.dumps(encode_config(repository.config), sort_keys=True, default=str)
    return hashlib.sha256(text.encode(), usedforsecurity=False).hexdigest()


def engine_version(version: Version) -> versions.Version:
    if version.snapshot is not None:
        return versions.Exactly(SnapshotId.parse(version.snapshot))
    if version.tag is not None:
        return versions.Tag(version.tag)
    branch = version.branch or "main"
    if version.as_of_us is not None:
        return versions.BranchAsOf(branch, version.as_of_us)
    return versions.Branch(branch)


def open_repository(place: PlaceText, access: AccessText) -> Repository:
    return Repository.open(open_place(place), access=parse_access(access))


type _CoordinateKey = tuple[str, Decoding, bool, int]


class Opened:
    """A pinned version that is open for reading, and what was learnt from it so far."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._coordinates: OrderedDict[_CoordinateKey, Values] = OrderedDict()
        self._groups: dict[str, GroupDescription] = {}

    def describe(self, group: str) -> GroupDescription:
        """Arrays directly in `group`. Raises NodeNotFoundError."""
        if group not in self._groups:
            self._groups[group] = self._describe(group)
        return self._groups[group]

    def _describe(self, group: str) -> GroupDescription:
        path = NodePath(group)
        if self.session.node(path).array is not None:
            raise InvalidInputError(
                f"{group!r} is an array, not a group;"
                f" use group {str(path.parent)!r} and variables {path.name!r}",
                kind="not-a-group",
            )
        arrays, groups = {}, []
        for name in self.session.child_names(path):
            node = self.session.find_node(path.child(name))
            if node is None or node.array is None:
                groups.append(name)
            else:
                arrays[name] = _describe(self.session, path.child(name))
        return GroupDescription(group, arrays, tuple(groups))

    def coordinate(self, column: ColumnPlan, positions: slice, *, size: int) -> Values:
        """Decoded values of a dimension's column. Those of short coordinates are cached."""
        if column.array is None:
            return Values(np.arange(positions.start, positions.stop), None)
        if size > _WHOLE_COORDINATE:
            return self._coordinate(column, positions)
        # all that the values depend on, within a snapshot: other groups have columns of this name
        key = (column.array.path, column.decoding, column.nan_is_null, size)
        if key not in self._coordinates:
            self._coordinates[key] = self._coordinate(column, slice(0, size))
            self._forget_oldest()
        else:
            self._coordinates.move_to_end(key)
        return _slice_values(self._coordinates[key], positions)

    def _forget_oldest(self) -> None:
        """A version may have thousands of groups, each with coordinates of its own."""
        cached = self._coordinates
        while len(cached) > _CACHED_COORDINATES or sum(map(len, cached.values())) > _CACHED_VALUES:
            cached.popitem(last=False)

    def _coordinate(self, column: ColumnPlan, positions: slice) -> Values:
        path = NodePath(column.array.path if column.array else "/")
        stored = read_region(self.session, path, (positions,))
        return decode(column.decoding, stored, nan_is_null=column.nan_is_null)

    def block(self, variable: ArrayDescription, axes: Sequence[Axis], box: Box) -> npt.NDArray[Any]:
        """Stored values of a box, in the order of `axes`; no chunk is touched without need."""
        names = [axis.name for axis in axes]
        order = [names.index(dim) for dim in variable.dims]
        along = [
            runs(axes[k], box[k], chunk) for k, chunk in zip(order, variable.chunks, strict=True)
        ]
        shape = [box[k][1] - box[k][0] for k in order]
        block = _assemble(along, shape, variable, self._region(variable))
        return block.transpose([variable.dims.index(name) for name in names])

    def _region(self, variable: ArrayDescription) -> "_ReadRegion":
        path = NodePath(variable.path)
        return lambda selection: read_region(self.session, path, selection)


type _ReadRegion = Callable[[tuple[slice, ...]], npt.NDArray[Any]]


def open_pinned(pinned: Pinned) -> Opened:
    version = versions.Exactly(SnapshotId.parse(pinned.snapshot))
    repository = open_repository(pinned.place, pinned.access)
    return Opened(repository.readonly_session(version))


@lru_cache(maxsize=8)
def reuse_pinned(pinned: Pinned) -> Opened:
    """Opens the pinned version as `open_pinned`, for all tasks of a worker, or all questions that a
    planner process is asked; they share its cached manifests and coordinates.
    """
    return open_pinned(pinned)


def _describe(session: Session, path: NodePath) -> ArrayDescription:
    array = open_array(session, path)
    try:
        chunks = array.shards or array.chunks
    except NotImplementedError:  # zarr's answer for a rectilinear grid: never cut it
        chunks = array.shape
    names = getattr(array.metadata, "dimension_names", None) or (None,) * array.ndim
    return ArrayDescription(
        name=path.name,
        path=str(path),
        dims=tuple(name or f"dim_{k}" for k, name in enumerate(names)),
        shape=array.shape,
        chunks=tuple(max(1, size) for size in chunks),
        dtype=array.dtype,
        attrs=dict(array.attrs),
        fill_value=array.fill_value,
    )


def _slice_values(values: Values, positions: slice) -> Values:
    null = None if values.null is None else values.null[positions]
    return Values(values.values[positions], null)


def _assemble(
    along: Sequence[Sequence[Run]],
    shape: Sequence[int],
    variable: ArrayDescription,
    read: _ReadRegion,
) -> npt.NDArray[Any]:
    if all(len(found) == 1 for found in along):
        return _read_runs([found[0] for found in along], read)
    block = np.empty(shape, dtype=variable.dtype)
    for chosen in product(*along):
        place = tuple(slice(run.offset, run.offset + run.count) for run in chosen)
        block[place] = _read_runs(chosen, read)
    return block


def _read_runs(chosen: Sequence[Run], read: _ReadRegion) -> npt.NDArray[Any]:
    region = read(tuple(slice(run.start, run.stop) for run in chosen))
    for axis, run in enumerate(chosen):
        if run.taken is not None:
            region = region.take(run.taken, axis=axis)
    return region
