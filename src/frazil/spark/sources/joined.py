"""Sources that lie side by side along a dimension, as one."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from frazil.spark.sources.opening import Opened
from frazil.spark.sources.source import Source


@dataclass(frozen=True, slots=True)
class JoinedSource:
    """`parts[i]` begins at `starts[i]`; the last of these is where the last part ends."""

    dim: str
    starts: tuple[int, ...]
    parts: "tuple[AnySource, ...]"

    @property
    def path(self) -> str:
        return self.parts[0].path


type AnySource = Source | JoinedSource


@dataclass(frozen=True, slots=True)
class Piece:
    """A source, and where it begins along the dimensions in which others lie beside it."""

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
    files: Opened,
    source: AnySource,
    name: str,
    dims: tuple[str, ...],
    selection: tuple[slice, ...],
) -> npt.NDArray[np.generic]:
    """A slab of a variable with these dimensions, put together if it is in several sources."""
    if isinstance(source, Source):
        return files.read(source, name, selection)
    if source.dim not in dims:
        return read_any(files, source.parts[0], name, dims, selection)
    axis = dims.index(source.dim)
    wanted = selection[axis]
    found = []
    for number, part in enumerate(source.parts):
        start, stop = source.starts[number], source.starts[number + 1]
        lo, hi = max(wanted.start, start), min(wanted.stop, stop)
        if lo < hi:
            own = (*selection[:axis], slice(lo - start, hi - start), *selection[axis + 1 :])
            found.append(read_any(files, part, name, dims, own))
    return found[0] if len(found) == 1 else np.concatenate(found, axis=axis)
