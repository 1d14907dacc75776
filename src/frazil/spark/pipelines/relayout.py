"""The `zarr.json` of an array with other chunks, shards or codecs, and everything else as it was.

argument   None      given
chunks     kept      lengths of what is compressed on its own
shards     kept      lengths of what is stored as one object, in whole chunks; {} is no sharding
codecs     kept      compressors alone, or a whole chain with what makes bytes of an array
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from frazil.engine.session.session import Session
from frazil.errors import InvalidInputError
from frazil.paths import NodePath
from frazil.spark.runtime.jobs import MAX_TASK_BYTES, Cut, Region, choose_box, region_shape, within
from frazil.zarrstore.array_codecs import check_document, codec_object, split_chain
from frazil.zarrstore.arrays import read_region

WHOLE = -1  # as in xarray and dask: one chunk for the whole dimension
_SHARDING = "sharding_indexed"
_INDEX_CODECS = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]

type Lengths = Mapping[str, int] | Sequence[int]
type Codec = str | Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Requested layout of a rechunk."""

    chunks: Lengths | None = None
    shards: Lengths | None = None
    codecs: tuple[Codec, ...] | None = None

    def __post_init__(self) -> None:
        if self.chunks is None and self.shards is None and self.codecs is None:
            raise InvalidInputError("give chunks, shards or codecs: there is nothing to change")
        _require_lengths("chunks", self.chunks)
        _require_lengths("shards", self.shards)
        for codec in self.codecs or ():
            if not isinstance(codec, str) and not _is_codec(codec):
                raise InvalidInputError(
                    f"codecs has {codec!r}, expected a name, or an object with a name"
                )

    def dims(self) -> set[str]:
        """Dimensions that are named."""
        named = [given for given in (self.chunks, self.shards) if isinstance(given, Mapping)]
        return {dim for given in named for dim in given}


@dataclass(frozen=True, slots=True)
class Layout:
    """Chunks and codecs of an array; `chunks` is None for an irregular grid."""

    chunks: tuple[int, ...] | None
    shards: tuple[int, ...] | None
    codecs: tuple[Mapping[str, Any], ...]

    @property
    def stored(self) -> tuple[int, ...] | None:
        """Lengths of what is one object."""
        return self.shards or self.chunks


def _require_lengths(what: str, given: object) -> None:
    lengths: object = given.values() if isinstance(given, Mapping) else given
    if given is None:
        return
    if isinstance(given, str) or not isinstance(lengths, Iterable):
        raise InvalidInputError(f"{what} is {given!r}, expected lengths by dimension")
    for length in lengths:
        if not is_whole(length):
            raise InvalidInputError(f"{what} has {length!r}, expected a whole number")


def is_whole(number: object) -> bool:
    return isinstance(number, int | np.integer) and not isinstance(number, bool)


def _is_codec(codec: object) -> bool:
    return isinstance(codec, Mapping) and isinstance(codec.get("name"), str)


def dims_of(document: Mapping[str, Any]) -> tuple[str, ...]:
    names = document.get("dimension_names") or [None] * len(document["shape"])
    return tuple(name or f"dim_{k}" for k, name in enumerate(names))


def layout_of(document: Mapping[str, Any]) -> Layout:
    grid = document["chunk_grid"]
    regular = grid["name"] == "regular"
    lengths = tuple(grid["configuration"]["chunk_shape"]) if regular else None
    codecs = tuple(_as_object(codec) for codec in document["codecs"])
    if len(codecs) == 1 and codecs[0]["name"] == _SHARDING:
        inner = codecs[0]["configuration"]
        return Layout(tuple(inner["chunk_shape"]), lengths, tuple(map(_as_object, inner["codecs"])))
    return Layout(lengths, None, codecs)


def relayout(user_data: bytes, wanted: Wanted, where: str) -> bytes:
    """The new document; the same bytes if nothing changes."""
    document = json.loads(user_data)
    now = layout_of(document)
    dims, shape = dims_of(document), tuple(document["shape"])
    chunks = _lengths(wanted.chunks, now.chunks, dims, shape, f"chunks of `{where}`")
    shards = now.shards
    if wanted.shards is not None:
        shards = _lengths(wanted.shards, now.stored, dims, shape, f"shards of `{where}`")
        shards = shards if len(wanted.shards) else None
    new = Layout(chunks, shards, _codecs(wanted.codecs, now.codecs))
    if new == now:
        return user_data
    _require_whole_chunks(new, where)
    made = json.dumps({**document, **_grid_and_codecs(new)}, indent=2).encode()
    check_document(made, where)
    return made


def _lengths(
    given: Lengths | None,
    now: tuple[int, ...] | None,
    dims: tuple[str, ...],
    shape: tuple[int, ...],
    what: str,
) -> tuple[int, ...]:
    if not isinstance(given, Mapping | None):
        if len(given) != len(shape) and len(given):
            raise InvalidInputError(f"{what} are {list(given)}, the array has shape {list(shape)}")
        given = dict(zip(dims, given, strict=False))
    if now is None and set(dims) - set(given or {}):
        raise InvalidInputError(f"{what} are of many lengths now: give one for each dimension")
    base = now or (1,) * len(shape)
    lengths = [dict(given or {}).get(dim, old) for dim, old in zip(dims, base, strict=True)]
    for dim, length in zip(dims, lengths, strict=True):
        if length != WHOLE and length < 1:
            raise InvalidInputError(f"{what} along {dim!r} are {length}: at least 1, or -1")
    return tuple(
        max(1, n) if size == WHOLE else size for size, n in zip(lengths, shape, strict=True)
    )


def _codecs(
    given: Sequence[Codec] | None, now: tuple[Mapping[str, Any], ...]
) -> tuple[Mapping[str, Any], ...]:
    if given is None:
        return now
    chain = tuple(_as_object(codec) for codec in given)
    filters, serializer, compressors = split_chain(chain)
    if serializer:
        return chain
    if filters:
        raise InvalidInputError("codecs with filters need the whole chain, such as bytes after it")
    kept, to_bytes, _ = split_chain(now)
    return (*kept, *to_bytes, *compressors)


def _as_object(codec: Codec) -> Mapping[str, Any]:
    return codec_object(codec) if isinstance(codec, str) else codec


def _require_whole_chunks(layout: Layout, where: str) -> None:
    if layout.shards is None or layout.chunks is None:
        return
    if any(s % c for s, c in zip(layout.shards, layout.chunks, strict=True)):
        raise InvalidInputError(
            f"shards of `{where}` are {list(layout.shards)}, which are not whole chunks of"
            f" {list(layout.chunks)}; give other shards, or {{}} for none"
        )


def _grid_and_codecs(layout: Layout) -> dict[str, Any]:
    codecs = [dict(codec) for codec in layout.codecs]
    if layout.shards is not None:
        inner = {
            "chunk_shape": list(layout.chunks or ()),
            "codecs": codecs,
            "index_codecs": _INDEX_CODECS,
            "index_location": "end",
        }
        codecs = [{"name": _SHARDING, "configuration": inner}]
    grid = {"chunk_shape": list(layout.stored or ())}
    return {"chunk_grid": {"name": "regular", "configuration": grid}, "codecs": codecs}


# Regions read piece by piece, so that no more of the source is in memory than a task may hold.
#
# A region may touch far more than its own bytes: a column of values through a thousand chunks.


def read_bounded(
    session: Session,
    path: NodePath,
    region: Region,
    chunks: Sequence[int],
    *,
    itemsize: int,
    max_bytes: int = MAX_TASK_BYTES,
) -> npt.NDArray[Any]:
    """The values of a region; `chunks` are what the source is stored in."""
    parts = list(pieces(region, chunks, itemsize=itemsize, max_bytes=max_bytes))
    if len(parts) == 1:
        return read_region(session, path, region)
    made: npt.NDArray[Any] | None = None
    for part in parts:
        values = read_region(session, path, part)
        if made is None:
            made = np.empty(region_shape(region), dtype=values.dtype)
        made[within(part, region)] = values
    return read_region(session, path, region) if made is None else made


def pieces(
    region: Region, chunks: Sequence[int], *, itemsize: int, max_bytes: int
) -> Iterator[Region]:
    """Parts of a region, each of which touches chunks of at most `max_bytes`, or one chunk."""
    first = [part.start // size for part, size in zip(region, chunks, strict=True)]
    grid = [
        max(0, -(-part.stop // size) - start)
        for part, size, start in zip(region, chunks, first, strict=True)
    ]
    one = [1] * len(grid)
    chunk_bytes = itemsize * int(np.prod(chunks, dtype=np.int64))
    cut = Cut(tuple(grid), choose_box(grid, one, one, itemsize=chunk_bytes, max_bytes=max_bytes))
    for number in range(len(cut)):
        yield tuple(
            slice(max(whole.start, (k + a.start) * n), min(whole.stop, (k + a.stop) * n))
            for a, k, n, whole in zip(cut.region(number), first, chunks, region, strict=True)
        )
