"""Values between two grids of boxes, in scratch objects that no commit refers to.

    first pass     a box of whole source chunks -> one object: its overlaps with the boxes of the
                   second pass, end to end, uncompressed
    second pass    a box of whole new chunks <- one range of each object that has a part of it

Offsets follow from the two grids, and names from a random key of the job, so there is no index.
A task that runs twice writes the same object again, and the driver knows every name without being
told. Objects have the names of chunks: those of a driver that was killed are garbage like any
chunk that was never committed.
"""

import hashlib
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import prod
from types import EllipsisType
from typing import Any

import numpy as np
import numpy.typing as npt

from frazil.engine.files.files import Files
from frazil.engine.files.object_keys import chunk_key
from frazil.errors import ObjectNotFoundError, StorageError
from frazil.ids import ChunkId
from frazil.objectstore.protocol import ObjectStore
from frazil.spark.runtime.jobs import Cut, Region, region_shape, within

_MARKER = -1  # the object that is there as long as the job is


@dataclass(frozen=True, slots=True)
class Scratch:
    """Scratch objects of one job, by number; picklable."""

    key: bytes

    def id_of(self, number: int) -> ChunkId:
        name = self.key + number.to_bytes(8, "little", signed=True)
        return ChunkId(hashlib.sha256(name, usedforsecurity=False).digest()[: ChunkId.size])

    def put(self, store: ObjectStore, number: int, values: npt.NDArray[Any]) -> None:
        """Stores an object, unless the job has ended: then nothing of it is left."""
        key = chunk_key(self.id_of(number))
        store.put(key, memoryview(values.view(np.uint8)))
        try:
            store.head(chunk_key(self.id_of(_MARKER)))
        except ObjectNotFoundError:
            store.delete([key])
            raise


@contextmanager
def scratch_objects(store: ObjectStore, count: int) -> Iterator[Scratch]:
    """Scratch for the tasks of a job, which is deleted at the end, also if it fails.

    The marker goes first: a task that is still running finds it gone after its put, and deletes
    what it stored.
    """
    scratch = Scratch(secrets.token_bytes(16))
    marker = chunk_key(scratch.id_of(_MARKER))
    if count:
        store.put(marker, b"frazil")
    try:
        yield scratch
    finally:
        if count:
            with suppress(StorageError):  # the job itself has succeeded, or failed, already
                store.delete([marker])
                store.delete([chunk_key(scratch.id_of(number)) for number in range(count)])


@dataclass(frozen=True, slots=True)
class Exchange:
    """The values of an array between the boxes of two grids; picklable."""

    first: Cut
    second: Cut
    dtype: np.dtype[Any]
    start: int = 0  # number of the first object

    @property
    def objects(self) -> int:
        return len(self.first)

    @property
    def parts(self) -> int:
        """Ranges of objects that are read."""
        return self.first.count_touched(self.second.box)

    def split(self, number: int, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The content of an object: the values of a box of the first grid, part by part."""
        region = self.first.region(number)
        flat = np.empty(values.size, self.dtype)
        for other in self.second.touched(region):
            part = _intersect(region, self.second.region(other))
            at, shape = _offset(region, part), region_shape(part)
            flat[at : at + prod(shape)].reshape(shape)[...] = _view(values, part, region)
        return flat

    def join(self, number: int, files: Files, scratch: Scratch) -> npt.NDArray[Any]:
        """The values of a box of the second grid, read from objects of the first."""
        region = self.second.region(number)
        others = self.first.touched(region)
        wholes = [self.first.region(other) for other in others]
        parts = [_intersect(region, whole) for whole in wholes]
        values = np.empty(region_shape(region), self.dtype)
        targets = [_view(values, part, region) for part in parts]
        offsets = [_offset(whole, part) for whole, part in zip(wholes, parts, strict=True)]
        ids = b"".join(scratch.id_of(self.start + other).raw for other in others)
        views = [_contiguous_bytes(target) for target in targets]
        fetched = files.chunks.fetch_many(
            np.frombuffer(ids, np.uint8).reshape(-1, ChunkId.size),
            (np.array(offsets, np.int64) * self.dtype.itemsize).astype(np.uint64),
            np.array([target.nbytes for target in targets], np.uint64),
            views,
        )
        for target, view, data in zip(targets, views, fetched, strict=True):
            if view is None or data is not view:
                target[...] = np.frombuffer(data, self.dtype).reshape(target.shape)
        return values


def _intersect(one: Region, other: Region) -> Region:
    return tuple(
        slice(max(a.start, b.start), min(a.stop, b.stop)) for a, b in zip(one, other, strict=True)
    )


def _view(values: npt.NDArray[Any], part: Region, region: Region) -> npt.NDArray[Any]:
    """A part of the values of a region; an array, also if it has no dimensions."""
    place: tuple[slice | EllipsisType, ...] = (*within(part, region), ...)
    view: npt.NDArray[Any] = values[place]
    return view


def _offset(region: Region, part: Region) -> int:
    """Elements before a part, where the parts of a region follow one another in row-major order.

    Before it are, along each axis in turn, all parts that begin earlier on it.
    """
    offset, before, after = 0, 1, prod(region_shape(region))
    for whole, own in zip(region, part, strict=True):
        after //= whole.stop - whole.start
        offset += before * (own.start - whole.start) * after
        before *= own.stop - own.start
    return offset


def _contiguous_bytes(values: npt.NDArray[Any]) -> memoryview | None:
    if not values.flags.c_contiguous:
        return None
    return memoryview(values.reshape(-1).view(np.uint8))
