"""Checks of the nodes of a snapshot, and the manifests that arrays use."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from frazil.engine.changes.zarr_metadata import GroupMetadata, NodeMetadata, parse_node_metadata
from frazil.errors import FormatError, InvalidInputError
from frazil.flatbuf.table import Table
from frazil.format.nodes import with_shapes_v2
from frazil.format.schemas import NODE_ARRAY, NODE_GROUP
from frazil.ids import format_base32
from frazil.maintenance.verify.column_checks import check_texts, first_descent, first_repeat
from frazil.maintenance.verify.file_reader import OpenedFile
from frazil.maintenance.verify.problems import Problem, problem
from frazil.paths import NodePath

type Extents = npt.NDArray[np.int64]  # (k, ndim, 2): from and to, `to` exclusive

_BLOCK = 512  # rows compared with all others at a time, to bound memory


def decode_extents(values: npt.NDArray[np.uint8], ndim: int) -> Extents:
    """Structs of (from, to), of several refs that have `ndim` each."""
    pairs = np.ascontiguousarray(values).view("<u4").astype(np.int64)
    return pairs.reshape(-1, ndim, 2) if ndim else np.zeros((0, 0, 2), dtype=np.int64)


def find_overlap(extents: Extents) -> tuple[int, int] | None:
    """Two rows that share a cell of the grid, if there are any. Empty extents share none."""
    count, ndim, _ = extents.shape
    if count < 2:
        return None
    if not ndim:
        return 0, 1  # an array without dimensions has one chunk
    order = np.argsort(extents[:, 0, 0], kind="stable")
    start, stop = extents[order, :, 0], extents[order, :, 1]
    filled = (start < stop).all(axis=1)
    order, start, stop = order[filled], start[filled], stop[filled]
    for first in range(0, len(order), _BLOCK):
        block = slice(first, first + _BLOCK)
        # Sorted by where they begin: what begins after the block ends cannot overlap it.
        last = int(np.searchsorted(start[:, 0], stop[block, 0].max()))
        others = slice(first, max(last, first + 1))
        both = np.ones((len(start[block]), len(start[others])), dtype=np.bool_)
        for axis in range(ndim):
            both &= start[block, None, axis] < stop[None, others, axis]
            both &= start[None, others, axis] < stop[block, None, axis]
        np.fill_diagonal(both, val=False)
        if both.any():
            here, there = np.argwhere(both)[0].tolist()
            pair = sorted((int(order[first + here]), int(order[first + there])))
            return pair[0], pair[1]
    return None


def covered_mask(index: npt.NDArray[np.uint32], extents: Extents) -> npt.NDArray[np.bool_]:
    """True for the rows of `index`, (n, ndim), that are inside one of the extents."""
    inside = np.zeros(len(index), dtype=np.bool_)
    for box in extents:
        mine = np.ones(len(index), dtype=np.bool_)
        for axis, (start, stop) in enumerate(box.tolist()):
            mine &= (index[:, axis] >= start) & (index[:, axis] < stop)
        inside |= mine
    return inside


_MOST_FACTS = 4_000_000  # remembered; after that the same facts may be collected again


@dataclass(frozen=True, slots=True)
class ManifestUse:
    """Chunks of one array that are looked for in one manifest."""

    manifest: bytes
    node_id: bytes
    path: str
    num_chunks: tuple[int, ...]
    raw_extents: bytes  # (k, ndim, 2) int64
    snapshot: str  # key of one file that says so
    user_data: bytes = b""  # zarr metadata, where chunks are to be decoded

    @property
    def ndim(self) -> int:
        return len(self.num_chunks)

    @property
    def extents(self) -> Extents:
        if not self.ndim:
            return np.zeros((0, 0, 2), dtype=np.int64)
        return np.frombuffer(self.raw_extents, dtype=np.int64).reshape(-1, self.ndim, 2)


@dataclass(frozen=True, slots=True)
class ListedManifest:
    """A manifest file as listed in one snapshot."""

    manifest: bytes
    size_bytes: int
    num_refs: int
    snapshot: str


@dataclass(slots=True)
class Seen:
    """Facts that were checked: grows with distinct facts, not with the number of snapshots."""

    facts: set[int] = field(default_factory=set)

    def is_new(self, *parts: bytes | int | tuple[bytes, ...]) -> bool:
        """True for the first call with these parts."""
        fact = hash(parts)  # of 64 bits, and keyed: collisions do not matter
        if fact in self.facts:
            return False
        if len(self.facts) >= _MOST_FACTS:
            self.facts.clear()
        self.facts.add(fact)
        return True


@dataclass(frozen=True, slots=True, eq=False)
class ManifestTask:
    """A manifest to check, and all that is expected of it."""

    manifest: bytes
    uses: tuple[ManifestUse, ...]
    listed: tuple[ListedManifest, ...]


def manifest_tasks(
    uses: Iterable[ManifestUse], listed: Iterable[ListedManifest]
) -> list[ManifestTask]:
    """Tasks in order of id. Of equal records the first is kept, as the one to name."""
    by_use: dict[tuple[bytes, bytes, tuple[int, ...], bytes], ManifestUse] = {}
    for use in uses:
        by_use.setdefault((use.manifest, use.node_id, use.num_chunks, use.raw_extents), use)
    by_list: dict[tuple[bytes, int, int], ListedManifest] = {}
    for each in listed:
        by_list.setdefault((each.manifest, each.size_bytes, each.num_refs), each)
    found: dict[bytes, tuple[list[ManifestUse], list[ListedManifest]]] = {}
    for use in by_use.values():
        found.setdefault(use.manifest, ([], []))[0].append(use)
    for each in by_list.values():
        found.setdefault(each.manifest, ([], []))[1].append(each)
    return [
        ManifestTask(manifest, tuple(used), tuple(files))
        for manifest, (used, files) in sorted(found.items())
    ]


@lru_cache(maxsize=10_000)  # most nodes are the same in every snapshot
def parse_metadata(user_data: bytes) -> NodeMetadata | str:
    """The metadata, or an error message."""
    try:
        return parse_node_metadata(user_data)
    except InvalidInputError as error:
        return error.message


def check_group(file: str, path: str, user_data: bytes) -> list[Problem]:
    match parse_metadata(user_data):
        case GroupMetadata():
            return []
        case str(text):
            return [problem("zarr-metadata-invalid", file, text, node=path)]
        case _:
            text = "a group with the zarr metadata of an array"
            return [problem("zarr-node-type", file, text, node=path)]


def check_array(
    file: str,
    path: str,
    user_data: bytes,
    *,
    shape: tuple[int, ...],
    num_chunks: tuple[int, ...] | None,
    names: tuple[str | None, ...] | None,
) -> list[Problem]:
    """`num_chunks` is None where the file has it only by way of unreliable chunk lengths."""
    found = parse_metadata(user_data)
    if isinstance(found, str):
        return [problem("zarr-metadata-invalid", file, found, node=path)]
    if isinstance(found, GroupMetadata):
        text = "an array with the zarr metadata of a group"
        return [problem("zarr-node-type", file, text, node=path)]
    problems = []
    if shape != found.shape:
        text = f"shape {list(shape)}, by zarr {list(found.shape)}"
        problems.append(problem("zarr-shape", file, text, node=path))
    elif num_chunks is not None and num_chunks != found.num_chunks:
        text = f"{list(num_chunks)} chunks, by zarr {list(found.num_chunks)}"
        problems.append(problem("zarr-shape", file, text, node=path))
    if (names or (None,) * len(shape)) != (found.dimension_names or (None,) * len(found.shape)):
        text = f"names {names}, by zarr {found.dimension_names}"
        problems.append(problem("zarr-dimension-names", file, text, node=path))
    return problems


@dataclass(frozen=True, slots=True, eq=False)
class NodeFacts:
    """Row i of each is one node. Kept longer than the file, so nothing is a part of its bytes."""

    ids: npt.NDArray[np.uint8]  # (n, 8)
    paths: list[bytes]
    is_array: npt.NDArray[np.bool_]
    ndim: npt.NDArray[np.int64]  # 0 for groups
    manifest_ids: npt.NDArray[np.uint8]  # (m, 12), of all arrays, repeated where shared


def node_facts(opened: OpenedFile) -> NodeFacts:
    """The nodes of a snapshot, with or without problems."""
    table = opened.root.tables("nodes").rows
    data = table.union("node_data")
    is_array = data.types == NODE_ARRAY
    ndim = np.zeros(len(table), dtype=np.int64)
    arrays = _Arrays.of(opened, table, [])
    if arrays is not None:
        ndim[is_array] = np.diff(arrays.table.tables("shape_v2").splits)[data.index[is_array]]
    paths = [path or b"" for path in table.string("path").to_list()]
    manifests = data.variants[NODE_ARRAY].tables("manifests").rows.struct("object_id").values
    return NodeFacts(table.struct("id").values.copy(), paths, is_array, ndim, manifests.copy())


def check_nodes(
    opened: OpenedFile, seen: Seen, problems: list[Problem], *, with_metadata: bool
) -> tuple[NodeFacts, list[ManifestUse]]:
    table, key = opened.root.tables("nodes").rows, opened.key
    paths = [path or b"" for path in table.string("path").to_list()]
    ids = [raw.tobytes() for raw in table.struct("id").values]
    data = table.union("node_data")
    is_array = data.types == NODE_ARRAY
    texts = [path.decode("utf-8", "replace") for path in paths]
    _check_order(opened, paths, problems)
    _check_paths(key, paths, texts, is_array.tolist(), problems)
    row = first_repeat(ids)
    if row is not None:
        text = f"{format_base32(ids[row])} is also the id of {texts[ids.index(ids[row])]}"
        problems.append(problem("node-id-duplicate", key, text, node=texts[row]))
    for row in np.flatnonzero(~np.isin(data.types, (NODE_ARRAY, NODE_GROUP))).tolist():
        text = f"node data is of type {int(data.types[row])}"
        problems.append(problem("node-kind", key, text, node=texts[row]))
    ndim = np.zeros(len(table), dtype=np.int64)
    uses: list[ManifestUse] = []
    arrays = _Arrays.of(opened, table, problems)
    fingerprints = [] if arrays is None else arrays.fingerprints()
    kinds, places = data.types.tolist(), data.index.tolist()
    for row, user_data in enumerate(table.string("user_data").to_list()):
        kind, at = kinds[row], places[row]
        document = user_data or b""
        if kind == NODE_ARRAY and arrays is not None:
            ndim[row] = len(fingerprints[at][0]) // 8
            if seen.is_new(ids[row], paths[row], document, *fingerprints[at]):
                found, used = arrays.check(at, key, texts[row], document)
                problems += found
                kept = document if with_metadata else b""
                uses += [
                    ManifestUse(manifest, ids[row], texts[row], num_chunks, extents, key, kept)
                    for manifest, num_chunks, extents in used
                ]
        elif kind == NODE_GROUP and seen.is_new(b"group", paths[row], document):
            problems += check_group(key, texts[row], document)
    manifests = data.variants[NODE_ARRAY].tables("manifests").rows.struct("object_id").values
    kept_ids = table.struct("id").values.copy()
    return NodeFacts(kept_ids, paths, is_array, ndim, manifests.copy()), uses


def _check_order(opened: OpenedFile, paths: list[bytes], problems: list[Problem]) -> None:
    row = first_descent(paths)
    if row is None:
        return
    by_component = [path.split(b"/") for path in paths]
    if opened.spec_version == 1 and by_component == sorted(by_component):
        text = "the reference does not find some of them"
        problems.append(problem("nodes-in-old-order", opened.key, text))
        return
    text = f"comes after {paths[row - 1].decode('utf-8', 'replace')}"
    where = paths[row].decode("utf-8", "replace")
    problems.append(problem("nodes-unsorted", opened.key, text, node=where))


def _check_paths(
    key: str, paths: list[bytes], texts: list[str], is_array: list[bool], problems: list[Problem]
) -> None:
    rows = dict(zip(paths, range(len(paths)), strict=True))
    if len(rows) != len(paths):
        row = first_repeat(paths)
        problems.append(problem("node-path-duplicate", key, "found twice", node=texts[row or 0]))
    for row, path in enumerate(paths):
        try:
            NodePath(path.decode())
        except (InvalidInputError, UnicodeDecodeError) as error:
            problems.append(problem("node-path", key, str(error), node=texts[row]))
            continue
        if path == b"/":
            continue
        parent = path.rpartition(b"/")[0] or b"/"
        above = rows.get(parent)
        if above is None:
            text = f"there is no {parent.decode()}"
            problems.append(problem("node-orphan", key, text, node=texts[row]))
        elif is_array[above]:
            text = f"{parent.decode()} is an array"
            problems.append(problem("node-parent-array", key, text, node=texts[row]))


type _Use = tuple[bytes, tuple[int, ...], bytes]  # manifest, num_chunks, extents


@dataclass(frozen=True, slots=True, eq=False)
class _Arrays:
    """The arrays of a snapshot, with shapes in the form of version 2."""

    table: Table  # ARRAY_NODE_DATA
    counted: bool  # whether numbers of chunks are stored, not worked back

    @classmethod
    def of(cls, opened: OpenedFile, nodes: Table, problems: list[Problem]) -> "_Arrays | None":
        before = nodes.union("node_data").variants[NODE_ARRAY]
        is_v2 = opened.spec_version >= 2
        if is_v2 and len(before.vector("shape").values):
            text = "an array has a `shape` of version 1"
            problems.append(problem("shape-version", opened.key, text))
        if len(before) and not (before.tables("shape_v2").present == is_v2).all():
            text = f"an array {'without' if is_v2 else 'with'} `shape_v2`"
            problems.append(problem("shape-version", opened.key, text))
        names = before.tables("dimension_names").rows.string("name")
        problems += check_texts(opened.key, {"dimension_names": names})
        try:
            converted = with_shapes_v2(nodes).union("node_data").variants[NODE_ARRAY]
        except FormatError as error:
            problems.append(problem("file-damaged", opened.key, error.message))
            return None
        return cls(converted, is_v2)

    def fingerprints(self) -> list[tuple[bytes | tuple[bytes, ...], ...]]:
        """All that `check` depends on, for each array."""
        shapes, names = self.table.tables("shape_v2"), self.table.tables("dimension_names")
        manifests = self.table.tables("manifests")
        extents = manifests.rows.vector("extents")
        texts = [name or b"" for name in names.rows.string("name").to_list()]
        lengths = np.ascontiguousarray(shapes.rows.scalar("array_length").values).tobytes()
        counts = np.ascontiguousarray(shapes.rows.scalar("num_chunks").values).tobytes()
        ids = np.ascontiguousarray(manifests.rows.struct("object_id").values).tobytes()
        boxes = np.ascontiguousarray(extents.values).tobytes()
        axes, named = shapes.splits.tolist(), names.splits.tolist()
        refs, edges = manifests.splits.tolist(), extents.splits.tolist()
        return [
            (
                lengths[8 * axes[at] : 8 * axes[at + 1]],
                counts[4 * axes[at] : 4 * axes[at + 1]],
                tuple(texts[named[at] : named[at + 1]]),
                ids[12 * refs[at] : 12 * refs[at + 1]],
                boxes[8 * edges[refs[at]] : 8 * edges[refs[at + 1]]],
            )
            for at in range(len(self.table))
        ]

    def check(
        self, at: int, key: str, path: str, document: bytes
    ) -> tuple[list[Problem], list[_Use]]:
        _, lengths, counts = self._shape(at)
        num_chunks = tuple(counts.tolist())
        problems = check_array(
            key,
            path,
            document,
            shape=tuple(lengths.tolist()),
            num_chunks=num_chunks if self.counted else None,
            names=self._names(at),
        )
        refs = self._refs(at)
        ids = self._manifest_ids(refs)
        splits = self.table.tables("manifests").rows.vector("extents").splits
        sizes = np.diff(splits[refs.start : refs.stop + 1])
        ndim = len(num_chunks)
        if (sizes != ndim).any():
            text = f"extents of {int(sizes[sizes != ndim][0])} dimensions, the array has {ndim}"
            problems.append(problem("extents-dimensions", key, text, node=path))
            return problems, []
        extents = decode_extents(self._extent_structs(refs), ndim)
        problems += _check_extents(key, path, ids, extents)
        return problems, list(_uses(ids, extents, num_chunks))

    def _shape(self, at: int) -> tuple[range, npt.NDArray[np.uint64], npt.NDArray[np.uint32]]:
        shapes = self.table.tables("shape_v2")
        axes = slice(int(shapes.splits[at]), int(shapes.splits[at + 1]))
        lengths = shapes.rows.scalar("array_length").values[axes]
        counts = shapes.rows.scalar("num_chunks").values[axes]
        return range(axes.start, axes.stop), lengths, counts

    def _names(self, at: int) -> tuple[str | None, ...] | None:
        names = self.table.tables("dimension_names")
        if not names.present[at]:
            return None
        listed = slice(int(names.splits[at]), int(names.splits[at + 1]))
        raw = names.rows.string("name").take(listed).to_list()
        return tuple(None if not name else name.decode("utf-8", "replace") for name in raw)

    def _refs(self, at: int) -> range:
        splits = self.table.tables("manifests").splits
        return range(int(splits[at]), int(splits[at + 1]))

    def _manifest_ids(self, refs: range) -> npt.NDArray[np.uint8]:
        rows = self.table.tables("manifests").rows
        return rows.struct("object_id").values[refs.start : refs.stop]

    def _extent_structs(self, refs: range) -> npt.NDArray[np.uint8]:
        extents = self.table.tables("manifests").rows.vector("extents")
        return extents.values[int(extents.splits[refs.start]) : int(extents.splits[refs.stop])]


def _check_extents(
    key: str, path: str, ids: npt.NDArray[np.uint8], extents: Extents
) -> list[Problem]:
    problems = []
    if extents.shape[1]:
        backwards = np.flatnonzero((extents[:, :, 0] > extents[:, :, 1]).any(axis=1))
        for row in backwards[:1].tolist():
            text = f"{extents[row].tolist()} of manifest {format_base32(ids[row].tobytes())}"
            problems.append(problem("extents-invalid", key, text, node=path))
    pair = find_overlap(extents) if extents.shape[1] else ((0, 1) if len(ids) > 1 else None)
    if pair is not None:
        names = " and ".join(format_base32(ids[row].tobytes()) for row in pair)
        problems.append(problem("extents-overlap", key, f"manifests {names}", node=path))
    return problems


def _uses(
    ids: npt.NDArray[np.uint8], extents: Extents, num_chunks: tuple[int, ...]
) -> Iterator[_Use]:
    """One for each manifest, with all extents of it."""
    if not len(extents):  # no dimensions
        yield from ((raw.tobytes(), num_chunks, b"") for raw in ids)
        return
    rows: dict[bytes, list[int]] = {}
    for row, raw in enumerate(ids):
        rows.setdefault(raw.tobytes(), []).append(row)
    for manifest, mine in rows.items():
        yield manifest, num_chunks, np.ascontiguousarray(extents[mine]).tobytes()
