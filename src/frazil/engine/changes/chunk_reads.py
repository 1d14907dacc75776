"""Reads chunks of an array: their references, one or a million at a time, and their bytes.

Committed references are found through the array's manifests; a session's own take precedence.
"""

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from operator import index as as_int
from operator import lt

import numpy as np
import numpy.typing as npt

from frazil.dataclass import dataclass
from frazil.engine.changes.pending import ChunkChanges, Index
from frazil.engine.files.caches import StoredChunk
from frazil.engine.files.chunk_objects import require_readable, require_readable_range
from frazil.engine.files.files import Files
from frazil.errors import IcechunkError, InvalidInputError
from frazil.format.chunk_refs import ChunkRefs, Inline, Native, Payload, RefKind, Virtual
from frazil.format.nodes import ManifestRef, Node, refs_around
from frazil.objectstore.protocol import Data
from frazil.objectstore.reads import Targets
from frazil.ranges import ByteRange, Last, Range, resolve

_AHEAD = 8  # manifests that are fetched while one is looked at
_FEW = 16  # chunks that are looked up one by one


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """Rows of `refs` and their places in the list of indices that was asked for."""

    refs: ChunkRefs
    rows: npt.NDArray[np.int64]  # (k,)
    at: npt.NDArray[np.int64]  # (k,)


def find_committed(files: Files, node: Node, index: Index) -> Payload | None:
    for ref in _covering(node, index):
        if (refs := refs_in(files, node, ref)) is not None:
            row = refs.find(index)
            if row >= 0:
                return refs.payload(row)
    return None


def is_cached(files: Files, node: Node, index: Index) -> bool:
    """True if `find_committed` needs no file that is not cached."""
    return all(files.find_manifest(ref.id) is not None for ref in _covering(node, index))


def lookup_current(
    files: Files,
    node: Node,
    changes: ChunkChanges | None,
    wanted: npt.NDArray[np.uint32],  # (m, ndim)
) -> list[Found]:
    """The wanted references that exist, with a session's changes applied."""
    if changes is None and len(wanted) <= _FEW:
        return _lookup_few(files, node, wanted)
    grid = np.array(_grid(node), dtype=np.uint32)
    places = np.flatnonzero((wanted < grid).all(axis=1))
    found = []
    if changes is not None:
        rows = changes.refs.lookup(wanted[places])
        is_set, is_gone = rows >= 0, changes.deletes(wanted[places])
        found.append(Found(refs=changes.refs, rows=rows[is_set], at=places[is_set]))
        places = places[~is_set & ~is_gone]
    committed = _lookup_committed(files, node, wanted[places])
    return found + [Found(refs=part.refs, rows=part.rows, at=places[part.at]) for part in committed]


def current_refs(files: Files, node: Node, changes: ChunkChanges | None) -> Iterator[ChunkRefs]:
    """Everything there is inside the grid: a session's changes first, then manifest by manifest."""
    grid = _grid(node)
    if changes is not None and len(refs := changes.refs.within(grid)):
        yield refs
    for batch in _stored_refs(files, node):
        if batch is None:
            continue
        refs = batch.within(grid)
        if changes is not None and len(refs):
            refs = ChunkRefs.merged(refs, ChunkRefs.empty(refs.ndim), changes.index)
        if len(refs):
            yield refs


def _stored_refs(files: Files, node: Node) -> Iterator[ChunkRefs | None]:
    """The array's part of each manifest. From a far store, the next ones are prefetched."""
    ahead = _AHEAD if files.store.far else 0
    under_way: deque[Callable[[], ChunkRefs | None]] = deque()
    for ref in _manifests(node):
        fetch = partial(refs_in, files, node, ref)
        under_way.append(files.pool.start(fetch) if ahead else fetch)
        if len(under_way) > ahead:
            yield under_way.popleft()()
    while under_way:
        yield under_way.popleft()()


def _lookup_committed(files: Files, node: Node, wanted: npt.NDArray[np.uint32]) -> list[Found]:
    asked = [
        (ref, places)
        for ref in refs_around(_manifests(node), wanted)
        if len(places := np.flatnonzero(_extents_mask(ref, wanted)))
    ]
    loaded = files.pool.map(lambda pair: refs_in(files, node, pair[0]), asked)
    found = []
    for (_, places), refs in zip(asked, loaded, strict=True):
        if refs is not None:
            rows = refs.lookup(wanted[places])
            hit = rows >= 0
            found.append(Found(refs=refs, rows=rows[hit], at=places[hit]))
    return found


def _lookup_few(files: Files, node: Node, wanted: npt.NDArray[np.uint32]) -> list[Found]:
    """Like `lookup_current`, by plain integers: numpy takes a microsecond for any call."""
    grid = _grid(node)
    places = [(at, index) for at, index in enumerate(wanted.tolist()) if all(map(lt, index, grid))]
    asked = [
        (ref, own)
        for ref in refs_around(_manifests(node), wanted)
        if (own := [place for place in places if covers(ref, place[1])])
    ]
    loaded = files.pool.map(lambda pair: refs_in(files, node, pair[0]), asked)
    found = []
    for (_, own), refs in zip(asked, loaded, strict=True):
        if refs is not None:
            rows = [(row, at) for at, index in own if (row := refs.find(index)) >= 0]
            columns = np.array(rows, np.int64).reshape(-1, 2).T
            found.append(Found(refs, columns[0], columns[1]))
    return found


def refs_in(files: Files, node: Node, ref: ManifestRef) -> ChunkRefs | None:
    """The array's part of one manifest; rows of another dimensionality are not this array's."""
    refs = files.fetch_manifest(ref.id).arrays.get(node.id)
    ndim = 0 if node.array is None else len(node.array.shape)
    return refs if refs is not None and refs.index.shape[1] == ndim else None


def _covering(node: Node, index: Index) -> list[ManifestRef]:
    around = refs_around(_manifests(node), np.array([index], dtype=np.uint32))
    return [ref for ref in around if covers(ref, index)]


def covers(ref: ManifestRef, index: Index) -> bool:
    """Manifests that state no extents may hold any chunk."""
    return not ref.extents or all(
        start <= position < stop for position, (start, stop) in zip(index, ref.extents, strict=True)
    )


def _extents_mask(ref: ManifestRef, wanted: npt.NDArray[np.uint32]) -> npt.NDArray[np.bool_]:
    if not ref.extents:
        return np.ones(len(wanted), dtype=np.bool_)
    bounds = np.array(ref.extents, dtype=np.int64)
    inside: npt.NDArray[np.bool_] = ((wanted >= bounds[:, 0]) & (wanted < bounds[:, 1])).all(axis=1)
    return inside


def _grid(node: Node) -> tuple[int, ...]:
    return () if node.array is None else node.array.num_chunks


def _manifests(node: Node) -> Sequence[ManifestRef]:
    return () if node.array is None else node.array.manifests


def fetch_payload(files: Files, payload: Payload, byte_range: ByteRange | None) -> Data:
    """The wanted part of a chunk, cut off at its ends."""
    match payload:
        case Inline(data):
            part = resolve(byte_range, len(data))
            return data[part.start : part.stop]
        case Native(chunk_id, offset, length):
            part = resolve(byte_range, length)
            require_readable_range(offset, part.stop - part.start, files.settings.limits)
            return files.chunks.fetch(chunk_id, Range(offset + part.start, offset + part.stop))
        case Virtual():
            return files.virtual.fetch(payload, resolve(byte_range, payload.length))


def fetch_found(
    files: Files,
    found: Sequence[Found],
    count: int,
    parts: npt.NDArray[np.int64] | None = None,
    into: Targets | None = None,
) -> list[Data | None]:
    """Chunks in bulk, each at its place in a list of `count`; whole, or these (count, 2) bytes.

    A negative start counts from the end, up to which is read then.
    Native ones may have been put into their targets, if these have their lengths; then the target
    is what is given back.
    """
    data: list[Data | None] = [None] * count
    virtual: list[tuple[ChunkRefs, npt.NDArray[np.int64]]] = []
    places: list[int] = []  # of the virtual ones
    for part in found:
        kind = part.refs.kind[part.rows]
        for row, place in _pairs(part, kind == RefKind.INLINE):
            wanted = None if parts is None else _byte_range(parts, place)
            data[place] = fetch_payload(files, part.refs.payload(row), wanted)
        native, is_virtual = kind == RefKind.NATIVE, kind == RefKind.VIRTUAL
        stored = Found(part.refs, part.rows[native], part.at[native])
        fetched = _fetch_native(files, stored, parts, into)
        for place, chunk in zip(stored.at.tolist(), fetched, strict=True):
            data[place] = chunk
        virtual.append((part.refs, part.rows[is_virtual]))
        places += part.at[is_virtual].tolist()
    for place, chunk in zip(places, _fetch_virtual(files, virtual, places, parts), strict=True):
        data[place] = chunk
    return data


@dataclass(frozen=True, slots=True, eq=False)
class FoundChunks:
    """Chunks of an array that were looked up: they are read as they were, even if changed since."""

    files: Files
    found: Sequence[Found]
    count: int

    def stored(self) -> list[StoredChunk | None]:
        """Place of each chunk that is stored in an object of this repository, None of others."""
        places: list[StoredChunk | None] = [None] * self.count
        for part in self.found:
            refs, rows, numbers = part.refs, part.rows, part.at
            if len(rows) <= _FEW:
                for row, at in zip(rows.tolist(), numbers.tolist(), strict=True):
                    places[at] = _stored_chunk(refs, row)
                continue
            native = refs.kind[rows] == RefKind.NATIVE
            if not native.all():
                rows, numbers = rows[native], numbers[native]
            offset, length = refs.offset[rows].tolist(), refs.length[rows].tolist()
            ids, size = refs.chunk_id[rows].tobytes(), refs.chunk_id.shape[1]
            for row, at in enumerate(numbers.tolist()):
                chunk_id = ids[row * size : (row + 1) * size]
                places[at] = StoredChunk(chunk_id, offset[row], length[row])
        return places

    def load(
        self, parts: npt.NDArray[np.int64] | None = None
    ) -> Sequence[StoredChunk | Data | None]:
        """Bytes of each chunk, or these parts of them, as `Session.fetch_chunks` has them.

        Of chunks in local files there is the place instead: `ChunkFiles.fetch_stored` reads it.
        """
        if not self.files.chunks.are_near:
            return self.fetch(range(self.count), parts)
        stored = self.stored()
        if parts is not None:
            stored = [
                place and place.part(start, stop)
                for place, (start, stop) in zip(stored, parts.tolist(), strict=True)
            ]
        require_readable(stored, self.files.settings.limits)
        others = [row for row, place in enumerate(stored) if place is None]
        loaded: list[StoredChunk | Data | None] = [*stored]
        if others:
            fetched = self.fetch(others, None if parts is None else parts[others])
            for row, data in zip(others, fetched, strict=True):
                loaded[row] = data
        return loaded

    def fetch(
        self, chosen: Sequence[int], parts: npt.NDArray[np.int64] | None = None
    ) -> list[Data | None]:
        """Bytes of these chunks, by their numbers, as `Session.fetch_chunks` has them."""
        numbers = np.asarray(chosen, np.int64)
        found = []
        for part in self.found:
            row_of = np.full(self.count, -1, np.int64)
            row_of[part.at] = part.rows
            rows = row_of[numbers]
            here = np.flatnonzero(rows >= 0)
            found.append(Found(part.refs, rows[here], here))
        return fetch_found(self.files, found, len(numbers), parts)


def _stored_chunk(refs: ChunkRefs, row: int) -> StoredChunk | None:
    if refs.kind.item(row) != RefKind.NATIVE:
        return None
    return StoredChunk(refs.chunk_id[row].tobytes(), refs.offset.item(row), refs.length.item(row))


def _fetch_native(
    files: Files,
    found: Found,
    parts: npt.NDArray[np.int64] | None,
    into: Targets | None,
) -> list[Data]:
    refs, rows, places = found.refs, found.rows, found.at
    offset, length = refs.offset[rows], refs.length[rows]
    if parts is not None:
        begin = parts[places, 0]
        start = np.minimum(np.abs(begin).astype(np.uint64), length)
        start = np.where(begin < 0, length - start, start)
        stop = np.minimum(parts[places, 1].astype(np.uint64), length)
        length = stop - start
    if len(length):
        require_readable_range(int(offset.max()), int(length.max()), files.settings.limits)
    if parts is not None:
        offset = offset + start
    targets = None if into is None else _matching_targets(into, places, length)
    return files.chunks.fetch_many(refs.chunk_id[rows], offset, length, targets)


def _matching_targets(
    into: Targets, places: npt.NDArray[np.int64], length: npt.NDArray[np.uint64]
) -> list[memoryview | None]:
    """Targets of these chunks, as far as they are of their lengths."""
    targets = [into[place] for place in places.tolist()]
    return [
        each if each is not None and each.nbytes == size else None
        for each, size in zip(targets, length.tolist(), strict=True)
    ]


def _fetch_virtual(
    files: Files,
    found: list[tuple[ChunkRefs, npt.NDArray[np.int64]]],
    places: list[int],
    parts: npt.NDArray[np.int64] | None,
) -> Sequence[Data]:
    """Fetches for all manifests at once: chunks of one file may be referenced by several."""
    if not places:
        return ()
    if parts is None:
        return files.virtual.fetch_many(found)
    chunks = [refs.payload(row) for refs, rows in found for row in rows.tolist()]
    wanted = [
        (chunk, resolve(_byte_range(parts, place), chunk.length))
        for chunk, place in zip(chunks, places, strict=True)
        if isinstance(chunk, Virtual)
    ]
    fetched = files.virtual.fetch_parts(wanted)
    for each in fetched:
        if isinstance(each, IcechunkError):
            raise each
    return [each for each in fetched if not isinstance(each, IcechunkError)]


def _byte_range(parts: npt.NDArray[np.int64], place: int) -> ByteRange:
    start, stop = parts[place].tolist()
    return Last(-start) if start < 0 else Range(start, stop)


def _pairs(part: Found, chosen: npt.NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    return zip(part.rows[chosen].tolist(), part.at[chosen].tolist(), strict=True)


# Chunks of an array put at other places of its grid: references change, bytes stay.

type Rule = Callable[[list[int]], Iterable[int] | None]
"""From the place of a chunk to another, or None."""

_FAR = 2**32  # further than any grid reaches


def require_regular_grid(node: Node) -> None:
    """Raises for other grids: at another index a chunk may have another size."""
    grid = json.loads(node.user_data)["chunk_grid"]["name"]
    if grid != "regular":
        raise InvalidInputError(
            f"cannot move chunks of the array at `{node.path}`: its chunk grid is {grid}, not"
            " regular",
            kind="not-allowed",
        )


def shift_refs(refs: ChunkRefs, offset: Iterable[int], grid: Sequence[int]) -> ChunkChanges:
    """Every chunk moves by `offset`; what leaves the grid is dropped, what is left behind empty."""
    steps = [max(-_FAR, min(_FAR, as_int(step))) for step in offset]
    if len(steps) != len(grid):
        raise InvalidInputError(
            f"chunk_offset has {len(steps)} numbers, the array has {len(grid)} dimensions",
            kind="invalid-chunk-index",
        )
    places = refs.index.astype(np.int64) + np.array(steps, dtype=np.int64)
    bounds = np.array(grid, dtype=np.int64)
    rows = np.flatnonzero(((places >= 0) & (places < bounds)).all(axis=1))
    moved = refs.with_index(places[rows].astype(np.uint32), rows)
    return ChunkChanges(refs=moved, deleted=_removed_chunks(refs, moved))


def reindex_refs(
    refs: ChunkRefs, forward: Rule, backward: Rule | None, grid: Sequence[int]
) -> ChunkChanges:
    """Moves every chunk to the index that `forward` returns; None leaves it where it is.

    A place that was left and not taken keeps what it had, unless `backward` says None of it, or
    names a place that has no chunk: then it becomes empty. Of two chunks for one place the later
    one, in the order of the grid, gets it.
    """
    found = _apply_rule(forward, refs.index, grid)
    pairs = [(row, place) for row, place in enumerate(found) if place is not None]
    rows = np.array([row for row, _ in pairs], dtype=np.int64)
    moved = refs.with_index(_places([place for _, place in pairs], refs.ndim), rows)
    left = _removed_chunks(refs, moved)
    if backward is None:
        return ChunkChanges(refs=moved, deleted=left[:0])
    sources = [
        source is not None and _is_inside(source, grid) and refs.find(source) >= 0
        for source in _apply_rule(backward, left, None)
    ]
    empty = ~np.array(sources, dtype=np.bool_)
    return ChunkChanges(refs=moved, deleted=left[empty])


def _apply_rule(
    rule: Rule, index: npt.NDArray[np.uint32], grid: Sequence[int] | None
) -> Iterator[tuple[int, ...] | None]:
    """Result of `rule` for each row, (n, ndim). Without a grid, any result is accepted."""
    for place in index.tolist():
        answer = rule(place)
        if answer is None:
            yield None
            continue
        found = tuple(as_int(position) for position in answer)
        if len(found) != index.shape[1] or (grid is not None and not _is_inside(found, grid)):
            limits = "" if grid is None else f", whose grid is {list(grid)} chunks"
            raise InvalidInputError(
                f"chunk {place} cannot come from or go to {list(found)} in an array of"
                f" {index.shape[1]} dimensions{limits}",
                kind="invalid-chunk-index",
            )
        yield found


def _is_inside(place: tuple[int, ...], grid: Sequence[int]) -> bool:
    return all(0 <= position < count for position, count in zip(place, grid, strict=True))


def _removed_chunks(old: ChunkRefs, new: ChunkRefs) -> npt.NDArray[np.uint32]:
    """Places, (k, ndim), that `old` has and `new` has not."""
    return old.index[new.lookup(old.index) < 0]


def _places(places: Sequence[tuple[int, ...]], ndim: int) -> npt.NDArray[np.uint32]:
    return np.array(places, dtype=np.uint32).reshape(len(places), ndim)
