"""Arrays and groups of a session, and whole regions read and written at once."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from math import prod
from operator import index
from threading import Lock
from types import EllipsisType
from typing import Any, SupportsIndex
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import zarr
from zarr.core.array_spec import ArraySpec
from zarr.core.buffer import default_buffer_prototype
from zarr.storage import MemoryStore

from frazil.dataclass import dataclass
from frazil.engine.files.caches import WeighedCache
from frazil.engine.session.session import Session
from frazil.errors import InvalidInputError
from frazil.paths import ROOT, NodePath
from frazil.zarrstore.keys import METADATA_FILE, chunk_keys, key_prefix
from frazil.zarrstore.pipeline.coding import is_supported, use_fused_pipeline
from frazil.zarrstore.pipeline.reading import Batch, Item, divide_box
from frazil.zarrstore.pipeline.session_pipeline import SessionPipeline
from frazil.zarrstore.pipeline.shards import Sharding
from frazil.zarrstore.store import SessionStore

type Selection = tuple[slice | int, ...]


def open_array(session: Session, path: NodePath) -> "zarr.Array[Any]":
    """Writable if the session is. Shape, attributes, fill value and so on are zarr's to tell."""
    return _open_array(SessionStore(session), path)


def open_group(session: Session, path: NodePath) -> zarr.Group:
    if session.node(path).array is not None:
        raise InvalidInputError(f"the node at `{path}` is not a group", kind="not-a-group")
    store = SessionStore(session)
    return zarr.open_group(store, path=key_prefix(path), mode=_mode(store), zarr_format=3)


def read_region(
    session: Session,
    path: NodePath,
    selection: Selection,
    out: npt.NDArray[Any] | None = None,
) -> npt.NDArray[Any]:
    """The selected part of an array, read as one plan (pipeline/).

    A slice or an integer selects along each dimension; those of integers are left out. Values are
    put into `out` if that is given; it has the shape of the selection.
    """
    region = _find_region(session, path, selection)
    if region is not None:
        values = np.empty(region.shape, region.direct.dtype) if out is None else out
        if region.read(values):
            return values
    array = open_array(session, path)
    _require_one_for_each_axis(array, selection)
    if out is None:
        return np.asarray(array[selection])
    if out.dtype != array.dtype:
        out[...] = array[selection]
    else:
        buffer = default_buffer_prototype().nd_buffer.from_numpy_array(out)
        array.get_basic_selection(selection, out=buffer)
    return out


def read_chunks(
    session: Session, path: NodePath, index: npt.NDArray[np.uint32]
) -> Iterator[npt.NDArray[Any]]:
    """Values of each stored chunk, (m, ndim), cut off at the ends of the array.

    All are fetched in one plan. The grid must be a plain one.
    """
    fetched = zip(chunk_keys(ROOT, index), session.fetch_chunks(path, index), strict=True)
    buffer = default_buffer_prototype().buffer
    held = {key: buffer.from_bytes(data) for key, data in fetched if data is not None}
    held[METADATA_FILE] = buffer.from_bytes(session.node(path).user_data)
    array = zarr.open_array(MemoryStore(held), mode="r", zarr_format=3)
    use_fused_pipeline(array)
    sizes = array.shards or array.chunks
    for place in index.tolist():
        parts = zip(place, sizes, strict=True)
        yield np.asarray(array[tuple(slice(k * size, (k + 1) * size) for k, size in parts)])


def write_region(
    session: Session, path: NodePath, selection: Selection, values: npt.ArrayLike
) -> None:
    """Overwrites the selected part of an array, as `read_region` selects it; `values` broadcast.

    Any number of threads may write to one array. A chunk that is written in part is read first, so
    two threads that write to different parts of one chunk take turns.
    """
    region = _find_region(session, path, selection)
    if region is not None:
        with _locks_of(session).held(path, region.batch.index):
            if region.write(np.asarray(values)):
                return
    array = open_array(session, path)
    touched = _touched_chunks(array, selection)
    axes = zip(selection, array.shape, strict=True)
    shape = [len(range(n)[part]) for part, n in axes if isinstance(part, slice)]
    with _locks_of(session).held(path, touched):
        array[selection] = np.broadcast_to(values, shape)


# Regions of arrays without zarr's own class of arrays, which takes milliseconds to open and runs
# each selection in an event loop, on another thread.


_NUMBERS = "biufc"  # kinds of dtype


@dataclass(frozen=True, slots=True, eq=False)
class _Direct:
    """The pipeline of an array with a regular grid of chunks."""

    pipeline: SessionPipeline
    spec: ArraySpec  # of the chunks
    dtype: np.dtype[Any]
    sharding: Sharding | None

    @classmethod
    def of(cls, array: "zarr.Array[Any]") -> "_Direct | None":
        """None if zarr has to read and write the array."""
        opened = array.async_array
        grid, config, pipeline = opened._chunk_grid, opened.config, opened.codec_pipeline  # noqa: SLF001 -- zarr 3.4's
        is_usual = grid.is_regular and config.read_missing_chunks and is_supported(array.dtype)
        if not is_usual or not isinstance(pipeline, SessionPipeline):
            return None
        metadata, prototype = opened.metadata, default_buffer_prototype()
        spec = ArraySpec(grid.chunk_shape, metadata.dtype, metadata.fill_value, config, prototype)
        return cls(pipeline, spec, array.dtype, pipeline.sharding(spec))


@dataclass(frozen=True, slots=True, eq=False)
class _Region:
    """A part of such an array."""

    direct: _Direct
    batch: Batch
    shape: tuple[int, ...]

    def read(self, out: npt.NDArray[Any]) -> bool:
        """False if zarr has to do it."""
        direct = self.direct
        if out.dtype != direct.dtype or out.shape != self.shape:
            return False
        return direct.pipeline.read_batch(self.batch, out, direct.sharding) is not None

    def write(self, values: npt.NDArray[Any]) -> bool:
        """False if zarr has to do it."""
        direct = self.direct
        if values.dtype != direct.dtype:
            if values.dtype.kind not in _NUMBERS or direct.dtype.kind not in _NUMBERS:
                return False
            values = values.astype(direct.dtype)  # as zarr does
        whole = np.broadcast_to(values, self.shape)
        return direct.pipeline.write_batch(self.batch, whole, direct.sharding)


# By the metadata of an array, and the settings of zarr that are looked at when it is opened.
_directs: WeighedCache[tuple[bytes, tuple[Any, ...]], tuple[_Direct | None]] = WeighedCache(
    256, lambda _: 1
)


def _find_region(session: Session, path: NodePath, selection: Selection) -> _Region | None:
    """None if zarr has to read and write the array, or nothing is selected, or backwards."""
    node = session.find_node(path)
    if node is None or node.array is None:
        return None  # zarr says so
    settings = zarr.config.config
    names = settings["codec_pipeline"]["path"], settings["buffer"], settings["ndbuffer"]
    key = node.user_data, (*names, *settings["array"].items(), *settings["codecs"].items())
    if (known := _directs.find(key)) is None:
        known = (_Direct.of(open_array(session, path)),)
        _directs.remember(key, known)
    (direct,) = known
    if direct is None:
        return None
    box = divide_box(selection, node.array.shape, direct.spec.shape)
    if box is None:
        return None
    items: list[Item] = [(None, direct.spec, *chunk[1:]) for chunk in box.chunks]
    index = np.array([chunk[0] for chunk in box.chunks], np.uint32)
    index = index.reshape(len(items), len(selection))
    batch = Batch(session, session.read_only, path, index, items, ())
    return _Region(direct, batch, box.shape)


class _ChunkLocks:
    """Mutual exclusion by chunk; a few locks serve all chunks, by hash."""

    def __init__(self) -> None:
        self._locks = [Lock() for _ in range(64)]

    @contextmanager
    def held(self, path: NodePath, chunks: npt.NDArray[np.uint32] | None) -> Iterator[None]:
        """Context in which no other thread holds these chunks, (m, ndim); None is all."""
        with ExitStack() as stack:
            # Always in ascending order, so that two writers cannot wait for each other.
            for number in self._numbers(path, chunks):
                stack.enter_context(self._locks[number])
            yield

    def _numbers(self, path: NodePath, chunks: npt.NDArray[np.uint32] | None) -> list[int]:
        count = len(self._locks)
        if chunks is None or len(chunks) >= count:
            return list(range(count))
        return sorted({hash((path, *index)) % count for index in chunks.tolist()})


# Locks belong to a session but are no business of the engine, whose writes are whole chunks.
_locks: WeakKeyDictionary[Session, _ChunkLocks] = WeakKeyDictionary()
_locks_guard = Lock()


def _locks_of(session: Session) -> _ChunkLocks:
    with _locks_guard:
        return _locks.setdefault(session, _ChunkLocks())


def _open_array(store: SessionStore, path: NodePath) -> "zarr.Array[Any]":
    if store.engine.node(path).array is None:
        raise InvalidInputError(f"there is not an array at `{path}`", kind="not-an-array")
    return zarr.open_array(store, path=key_prefix(path), mode=_mode(store), zarr_format=3)


def _mode(store: SessionStore) -> Any:  # zarr's Literal is not public
    return "r" if store.read_only else "r+"


def _touched_chunks(
    array: "zarr.Array[Any]", selection: Selection
) -> npt.NDArray[np.uint32] | None:
    """Index of every stored chunk that a selection touches, (m, ndim); None if not a plain grid."""
    _require_one_for_each_axis(array, selection)
    try:
        sizes: Sequence[int] = array.shards or array.chunks
    except NotImplementedError:  # zarr's answer for a rectilinear grid
        return None
    places = [
        _touched_places(_selected_places(part, length), size)
        for part, length, size in zip(selection, array.shape, sizes, strict=True)
    ]
    grid = np.meshgrid(*places, indexing="ij")
    index = np.stack(grid, axis=-1) if grid else np.zeros((1, 0))
    count = prod(len(along) for along in places)
    return index.reshape(count, array.ndim).astype(np.uint32)


def _require_one_for_each_axis(array: "zarr.Array[Any]", selection: Selection) -> None:
    if len(selection) != array.ndim:
        raise InvalidInputError(
            f"{len(selection)} slices or integers for an array of {array.ndim} dimensions"
        )


def _selected_places(part: slice | int, length: int) -> range:
    return range(length)[part : part + 1] if isinstance(part, int) else range(length)[part]


def _touched_places(selected: range, size: int) -> npt.NDArray[np.uint64]:
    """Chunks of `size` elements that hold any of the selected ones, along one dimension."""
    if selected.step > size or selected.step < 0:
        return np.unique(np.array(selected, dtype=np.uint64) // size)
    if not selected:
        return np.zeros(0, dtype=np.uint64)
    return np.arange(selected[0] // size, selected[-1] // size + 1, dtype=np.uint64)


# Selections by numpy's basic indices: integers, slices, `...`.

type Place = SupportsIndex | slice | EllipsisType
type GivenSelection = Place | tuple[Place, ...]


def select(selection: GivenSelection, shape: Sequence[int]) -> Selection:
    """A slice with bounds inside of it, or an integer from 0 on, for each axis.

    Raises InvalidInputError for what is no selection of an array of that shape.
    """
    given: tuple[Place, ...] = selection if isinstance(selection, tuple) else (selection,)
    if len(given) != len(shape) or EllipsisType in map(type, given):
        given = _one_for_each_axis(selection, given, len(shape))
    return tuple(map(_place, given, shape, range(len(shape))))


def selected_shape(selection: Selection) -> tuple[int, ...]:
    """The shape of what is selected, as `select` returns it."""
    return tuple(
        len(range(part.start, part.stop, part.step)) for part in selection if type(part) is slice
    )


def _one_for_each_axis(
    selection: GivenSelection, given: tuple[Place, ...], ndim: int
) -> tuple[Place, ...]:
    if not any(place is Ellipsis for place in given):
        given = (*given, Ellipsis)
    at = next(number for number, place in enumerate(given) if place is Ellipsis)
    before, after = given[:at], given[at + 1 :]
    missing = ndim - len(before) - len(after)
    if missing < 0 or any(place is Ellipsis for place in after):
        raise InvalidInputError(f"{selection!r} does not select from {ndim} dimensions")
    return (*before, *[slice(None)] * missing, *after)


def _place(place: Place, length: int, axis: int) -> slice | int:
    try:
        if isinstance(place, slice):
            start, stop, step = place.indices(length)
        else:
            return range(length)[index(place)]  # type: ignore[arg-type]  # no index of an ellipsis
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"{place!r} is not an integer, a slice or `...`") from error
    except IndexError as error:
        raise InvalidInputError(
            f"{place} is outside of axis {axis}, which has {length} places"
        ) from error
    if step < 0:
        raise InvalidInputError(f"{place} goes backwards along axis {axis}")
    return slice(start, max(start, stop), step)
