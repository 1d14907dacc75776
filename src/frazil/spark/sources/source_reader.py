"""Reading of sources of any format: descriptions, slabs, chunk tables, concatenations."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from frazil.errors import InvalidInputError
from frazil.spark.sources.source_dataset import describe_dataset, expand_dims, read_slab
from frazil.spark.sources.source_errors import source_errors
from frazil.spark.sources.source_files import source_mark, with_local_copy
from frazil.spark.sources.source_types import (
    ChunkTable,
    Reader,
    Source,
    SourceDescription,
    Storage,
)

if TYPE_CHECKING:
    import xarray as xr

type Dims = tuple[str, ...]
"""Dimensions along which sources follow one another; a source without one is one step of it."""


def open_source(source: Source, *, group: str | None = None, dims: Dims = ()) -> "xr.Dataset":
    with source_errors(source.path):
        original = source.format.open(source, group)
        dataset = expand_dims(
            original, dims, always=source.format.is_step, unstacked=source.format.unstacked
        )
        if dataset is not original:
            dataset.set_close(original.close)
        return dataset


def describe_source(
    source: Source,
    *,
    concat_dim: str | Dims | None,
    only: Iterable[str] | None = None,
    group: str | None = None,
    storage: bool = False,
    mark: bool = False,
) -> SourceDescription:
    """Describes a source: with `storage` also how variables are stored, with `mark` its version."""
    # The mark is older than what is read: a change during reading makes it another version.
    version = source_mark(source) if mark else ""
    dims = _dims(concat_dim)
    with with_local_copy(source) as readable:
        with (
            open_source(readable, group=group, dims=dims) as dataset,
            source_errors(source.path),
        ):
            description = describe_dataset(dataset, source.path, concat_dims=dims, only=only)
        description = replace(description, mark=version)
        if not storage:
            return description
        stored = source_storage(readable, description, group=group)
    return replace(
        description,
        variables={
            name: replace(variable, storage=stored[name])
            for name, variable in description.variables.items()
        },
    )


class DatasetReader:
    """Slabs of a dataset."""

    def __init__(self, path: str, dataset: "xr.Dataset") -> None:
        self._path = path
        self._dataset = dataset

    def read(self, name: str, selection: tuple[slice, ...]) -> npt.NDArray[np.generic]:
        with source_errors(self._path):
            return read_slab(self._dataset, name, selection)

    def close(self) -> None:
        self._dataset.close()


def open_reader(source: Source, *, group: str | None = None, dims: Dims = ()) -> Reader:
    open_dataset = partial(open_source, source, group=group, dims=dims)
    if source.format.reader is not None:
        return source.format.reader(source, group, open_dataset)
    return DatasetReader(source.path, open_dataset())


class ReaderPool:
    """Readers that are opened on first use; beyond the limit the oldest is closed."""

    def __init__(self, *, group: str | None, dims: Dims, limit: int) -> None:
        self._group = group
        self._dims = dims
        self._limit = limit
        self._readers: dict[Source, Reader] = {}

    def read(
        self, source: Source, name: str, selection: tuple[slice, ...]
    ) -> npt.NDArray[np.generic]:
        reader = self._readers.get(source)
        if reader is None:
            if len(self._readers) >= self._limit:
                self._readers.pop(next(iter(self._readers))).close()
            reader = open_reader(source, group=self._group, dims=self._dims)
            self._readers[source] = reader
        return reader.read(name, selection)

    def close(self) -> None:
        while self._readers:
            self._readers.popitem()[1].close()


@contextmanager
def open_readers(
    *, group: str | None = None, dims: Dims = (), limit: int = 16
) -> Iterator[ReaderPool]:
    pool = ReaderPool(group=group, dims=dims, limit=limit)
    try:
        yield pool
    finally:
        pool.close()


def _dims(given: str | Dims | None) -> Dims:
    if given is None:
        return ()
    return (given,) if isinstance(given, str) else given


def source_storage(
    source: Source, description: SourceDescription, *, group: str | None
) -> dict[str, Storage]:
    """Storage of each variable of the description."""
    names = list(description.variables)
    if source.format.storage is None:
        return dict.fromkeys(names, f"files of format {source.format.name}")
    stored = source.format.storage(source, names, group)
    return {name: _add_axes(stored[name], description.variables[name].shape) for name in names}


def source_chunks(
    source: Source, name: str, chunks: tuple[int, ...], *, group: str | None, stacked: int
) -> ChunkTable:
    """Chunks of a variable; the first `stacked` axes are not in the source, one step of them."""
    if source.format.chunks is None:
        raise InvalidInputError(f"{source.path}: format {source.format.name} cannot be virtual")
    table = source.format.chunks(source, name, chunks[stacked:], group)
    return replace(table, index=np.pad(table.index, ((0, 0), (stacked, 0))))


def _add_axes(storage: Storage, shape: tuple[int, ...]) -> Storage:
    """Adds the first axes that the source does not have, with chunks of one step."""
    if isinstance(storage, str):
        return storage
    missing = len(shape) - len(storage.chunks)
    if missing < 0:
        return "characters"  # that are described as text
    if missing == 0:
        return storage
    chunks = (*(1,) * missing, *storage.chunks)
    is_row = storage.is_row and bool(storage.chunks)
    return replace(storage, chunks=chunks, is_row=is_row, stacked=missing)


@dataclass(frozen=True, slots=True)
class ConcatenatedSource:
    """Sources that follow one another along a dimension, as one.

    `parts[i]` begins at `starts[i]`; the last item of `starts` is where the last part ends.
    """

    dim: str
    starts: tuple[int, ...]
    parts: "tuple[AnySource, ...]"

    @property
    def path(self) -> str:
        return self.parts[0].path


type AnySource = Source | ConcatenatedSource


@dataclass(frozen=True, slots=True)
class Piece:
    """A source, and its start along the dimensions along which it is concatenated."""

    source: Source
    starts: Mapping[str, int]


def pieces_of(source: AnySource) -> Iterator[Piece]:
    if isinstance(source, Source):
        yield Piece(source, {})
        return
    for part, start in zip(source.parts, source.starts, strict=False):
        for piece in pieces_of(part):
            yield Piece(piece.source, {source.dim: start, **piece.starts})


def read_any(
    readers: ReaderPool,
    source: AnySource,
    name: str,
    dims: tuple[str, ...],
    selection: tuple[slice, ...],
) -> npt.NDArray[np.generic]:
    """Reads a slab of a variable with these dimensions, from as many sources as needed."""
    if isinstance(source, Source):
        return readers.read(source, name, selection)
    if source.dim not in dims:
        return read_any(readers, source.parts[0], name, dims, selection)
    axis = dims.index(source.dim)
    wanted = selection[axis]
    slabs = []
    for number, part in enumerate(source.parts):
        start, stop = source.starts[number], source.starts[number + 1]
        lo, hi = max(wanted.start, start), min(wanted.stop, stop)
        if lo < hi:
            own = (*selection[:axis], slice(lo - start, hi - start), *selection[axis + 1 :])
            slabs.append(read_any(readers, part, name, dims, own))
    return slabs[0] if len(slabs) == 1 else np.concatenate(slabs, axis=axis)
