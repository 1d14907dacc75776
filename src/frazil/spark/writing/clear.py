"""Cells that go without rows: `DELETE` whose condition is one of coordinates.

Chunks that lie in the cells are removed by their references; those at the border are read, emptied
in part and stored again, on threads. Nothing is staged, and nothing but these chunks is read.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from frazil.engine.refs.version import Exactly
from frazil.engine.repository import Repository
from frazil.engine.session.session import Session
from frazil.errors import InvalidInputError
from frazil.objectstore.protocol import Data
from frazil.paths import NodePath
from frazil.spark.runtime.commits import session_at
from frazil.spark.table.description import ArrayDescription
from frazil.spark.table.opened import Opened
from frazil.spark.writing.commit import Commit
from frazil.spark.writing.layout import fill_of
from frazil.spark.writing.options import WriteOptions
from frazil.spark.writing.session import Written
from frazil.zarrstore.array_codecs import encode_region
from frazil.zarrstore.arrays import read_region

type Mask = npt.NDArray[np.bool_]
type Cells = Sequence[Sequence[Sequence[int]]]
"""Disjoint products: for each dimension of the table, the edges of ranges of positions."""


def clear_cells(
    repository: Repository, options: WriteOptions, question: Mapping[str, Any], application: str
) -> None:
    """Empties cells of the variables that the question names, as one commit."""
    match question:
        case {"clear": list(cells), "dims": list(dims), "variables": list(names), "base": str(at)}:
            pass
        case _:
            raise InvalidInputError("cells are cleared by Spark's side alone")
    session = session_at(repository, options.branch, at)
    arrays = (
        Opened(repository.readonly_session(Exactly(session.snapshot_id)))
        .describe(options.group)
        .arrays
    )
    removed = 0
    for name in names:
        for product in cells:
            along = dict(zip(dims, product, strict=True))
            removed += _clear(session, options.group, arrays[name], along)
    if removed:
        commit = Commit(options, application, options.key, {})
        commit.make(repository, session, Written(removed, 0, 0))


def _clear(
    session: Session, group: str, array: ArrayDescription, along: Mapping[str, Sequence[int]]
) -> int:
    """Number of chunks that changed."""
    path = NodePath(group).child(array.name)
    cleared = [_mask(along[dim], size) for dim, size in zip(array.dims, array.shape, strict=True)]
    counts = [
        np.add.reduceat(mask, np.arange(0, len(mask), step)) if len(mask) else mask.astype(int)
        for mask, step in zip(cleared, array.chunks, strict=True)
    ]
    lengths = [
        np.minimum(step, size - step * np.arange(len(count)))
        for count, size, step in zip(counts, array.shape, array.chunks, strict=True)
    ]
    whole, partly = list[npt.NDArray[np.uint32]](), list[npt.NDArray[np.uint32]]()
    for refs in session.chunk_refs(path):
        touched, full = np.ones(len(refs), dtype=bool), np.ones(len(refs), dtype=bool)
        for axis, (count, length) in enumerate(zip(counts, lengths, strict=True)):
            there = refs.index[:, axis]
            touched &= count[there] > 0
            full &= count[there] == length[there]
        whole.append(refs.index[touched & full])
        partly.append(refs.index[touched & ~full])
    gone = _join(whole, len(array.dims))
    if len(gone):
        session.delete_chunks(path, gone)
    parts = _join(partly, len(array.dims))
    room = max(1, _BYTES // max(1, array.chunk_bytes))
    for start in range(0, len(parts), room):
        _clear_parts(session, path, array, cleared, parts[start : start + room])
    return len(gone) + len(parts)


_BYTES = 64 << 20  # decoded at once, or one chunk


def _clear_parts(
    session: Session,
    path: NodePath,
    array: ArrayDescription,
    cleared: Sequence[Mask],
    chunks: npt.NDArray[np.uint32],
) -> None:
    """Empties parts of some chunks, on threads; those that hold nothing else then are removed."""
    document = session.node(path).user_data

    def clear(at: npt.NDArray[np.uint32]) -> Data | None:
        where = tuple(
            slice(int(k) * step, min((int(k) + 1) * step, size))
            for k, step, size in zip(at, array.chunks, array.shape, strict=True)
        )
        values = read_region(session, path, where).copy()
        inside = [np.flatnonzero(mask[part]) for mask, part in zip(cleared, where, strict=True)]
        values[np.ix_(*inside)] = fill_of(array)
        return encode_region(document, where, values).get(tuple(at.tolist()))

    session.change_chunks(path, chunks, session.files.pool.map(clear, list(chunks)))


def _mask(edges: Sequence[int], size: int) -> Mask:
    mask = np.zeros(size, dtype=bool)
    for start, stop in zip(edges[::2], edges[1::2], strict=True):
        mask[start:stop] = True
    return mask


def _join(parts: Sequence[npt.NDArray[np.uint32]], ndim: int) -> npt.NDArray[np.uint32]:
    return np.concatenate([np.zeros((0, ndim), dtype=np.uint32), *parts])
