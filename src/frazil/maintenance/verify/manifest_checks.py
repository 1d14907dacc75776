"""Checks of a manifest file: its arrays, references and locations."""

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from frazil.errors import FormatError
from frazil.flatbuf.columns import StringColumn
from frazil.flatbuf.ragged import even_length
from frazil.flatbuf.table import Table
from frazil.format.chunk_index import Box, is_ascending
from frazil.format.chunk_refs import RefKind
from frazil.format.locations import EncodedLocations, decode_locations
from frazil.format.storage_config import Containers
from frazil.ids import format_base32
from frazil.maintenance.verify.column_checks import check_texts, descents, id_keys, repeats
from frazil.maintenance.verify.file_reader import OpenedFile, check_id
from frazil.maintenance.verify.node_checks import ManifestTask, ManifestUse, covered_mask
from frazil.maintenance.verify.problems import Place, Problem, problem, problems_of_rows
from frazil.maintenance.verify.stored_objects import Objects

type Rows = npt.NDArray[np.int64]

_URL = re.compile(rb"[A-Za-z][A-Za-z0-9+.-]*://.")
_LAST = np.uint64(2**64 - 1)
OF_OBJECTS = {"chunk-missing", "chunk-out-of-bounds"}  # kinds of problems with what is referred to


def check_locations(
    place: Place,
    table: Table,
    locations: StringColumn,
    index: npt.NDArray[np.uint32] | None,
    containers: Containers | None,
) -> list[Problem]:
    """Checks the references of an array; rows without a location are not virtual."""
    virtual = np.flatnonzero(locations.present & ~table.struct("chunk_id").present)
    if not len(virtual):
        return []
    codes = locations.codes[virtual]
    texts = locations.strings
    used = np.unique(codes[codes >= 0])
    is_url = np.ones(len(texts) + 1, dtype=np.bool_)
    is_url[used] = [_is_url(texts.item(code)) for code in used.tolist()]
    is_url[-1] = False  # of no location at all
    offset = table.scalar("offset").values[virtual]
    length = table.scalar("length").values[virtual]
    both = table.string("checksum_etag").present[virtual]
    both = both & (table.scalar("checksum_last_modified").values[virtual] > 0)

    def location(row: int) -> str:
        return (locations.item(row) or b"").decode("utf-8", "replace")

    found = problems_of_rows(
        "virtual-location", place, virtual[~is_url[codes]], index, lambda row: repr(location(row))
    )
    found += problems_of_rows(
        "virtual-range",
        place,
        virtual[length > _LAST - offset],
        index,
        lambda row: f"{location(row)} from {int(table.scalar('offset').values[row])} on",
    )
    found += problems_of_rows("virtual-checksums", place, virtual[both], index, location)
    if containers is not None:
        found += _check_covered(place, locations, virtual, used[is_url[used]], containers)
    return found


def _check_covered(
    place: Place, locations: StringColumn, virtual: Rows, used: Rows, containers: Containers
) -> list[Problem]:
    """One problem for each place that is not covered, not for each chunk in it."""
    outside = used[~containers.covered(locations.strings.take(used))]
    if not len(outside):
        return []
    count = np.bincount(locations.codes[virtual], minlength=len(locations.strings))
    by_prefix: dict[str, list[int]] = {}
    for code in outside.tolist():
        text = locations.strings.item(code).decode("utf-8", "replace")
        by_prefix.setdefault(text.rpartition("/")[0] + "/", []).append(code)
    return [
        Problem("virtual-uncovered", place, f"{prefix}...", int(count[codes].sum()))
        for prefix, codes in by_prefix.items()
    ]


def _is_url(location: bytes) -> bool:
    return _URL.match(location) is not None


type Index = npt.NDArray[np.uint32]  # (n, ndim)


@dataclass(frozen=True, slots=True, eq=False)
class Surroundings:
    """Objects and containers that references are checked against."""

    objects: Objects | None  # those of chunks; None if references are compared with them later
    containers: Containers | None  # None if the configuration is not known


@dataclass(frozen=True, slots=True, eq=False)
class ArrayRefs:
    """Rows of a manifest, as the bytes have them."""

    file: str
    node_id: bytes
    uses: tuple[ManifestUse, ...]  # of this array
    table: Table  # CHUNK_REF, of all arrays of the manifest
    rows: slice
    kinds: npt.NDArray[np.uint8]  # of all arrays
    locations: StringColumn | None  # of all arrays

    def __len__(self) -> int:
        return int(self.rows.stop - self.rows.start)

    @property
    def place(self) -> Place:
        path = self.uses[0].path if self.uses else f"node {format_base32(self.node_id)}"
        return Place(self.file, path)

    @property
    def kind(self) -> npt.NDArray[np.uint8]:
        return self.kinds[self.rows]

    def splits(self) -> npt.NDArray[np.int64]:
        return self.table.vector("index").splits[self.rows.start : self.rows.stop + 1]

    def index(self) -> Index | None:
        """None if rows differ in their number of dimensions."""
        splits = self.splits()
        ndim = even_length(splits)
        if ndim is None:
            return None
        values = self.table.vector("index").values[int(splits[0]) : int(splits[-1])]
        return values.reshape(len(self), ndim)


def check_array_refs(refs: ArrayRefs, surroundings: Surroundings) -> list[Problem]:
    if not len(refs):
        return []
    problems = _check_kinds(refs)
    index = refs.index()
    problems += _check_dimensions(refs, index)
    if index is not None:
        problems += _check_array_order(refs, index)
        fitting = tuple(use for use in refs.uses if use.ndim == index.shape[1])
        if fitting:
            problems += _check_extents(refs, index, fitting)
    if surroundings.objects is not None:
        problems += _check_native(refs, index, surroundings.objects)
    if refs.locations is not None and (refs.kind == RefKind.VIRTUAL).any():
        problems += check_locations(
            refs.place,
            refs.table.take(refs.rows),
            refs.locations.take(refs.rows),
            index,
            surroundings.containers,
        )
    return problems


def _check_kinds(refs: ArrayRefs) -> list[Problem]:
    table, rows = refs.table, refs.rows
    fields = (
        table.string("inline").present[rows].astype(np.uint8),
        table.struct("chunk_id").present[rows].astype(np.uint8),
        (
            table.string("location").present[rows]
            | table.string("compressed_location").present[rows]
        ).astype(np.uint8),
    )
    count = fields[0] + fields[1] + fields[2]
    names = ("inline", "native", "virtual")

    def text(row: int) -> str:
        found = [name for name, field in zip(names, fields, strict=True) if field[row]]
        return f"it is {' and '.join(found) or 'of no kind'}"

    wrong = np.flatnonzero(count != 1)
    return problems_of_rows("chunk-ref-kind", refs.place, wrong, refs.index(), text)


def _check_dimensions(refs: ArrayRefs, index: Index | None) -> list[Problem]:
    wanted = {use.ndim for use in refs.uses}
    lengths = np.diff(refs.splits())
    if index is None and not wanted:
        wanted = {int(np.bincount(lengths).argmax())}
    wrong = np.flatnonzero(~np.isin(lengths, list(wanted))) if wanted else lengths[:0]

    def text(row: int) -> str:
        return f"index {refs.table.vector('index').row(refs.rows.start + row).tolist()}"

    return problems_of_rows("chunk-dimensions", refs.place, wrong, None, text)


def _check_array_order(refs: ArrayRefs, index: Index) -> list[Problem]:
    if is_ascending(index):
        return []
    keys = Box.around(index).keys(index)
    unsorted = np.flatnonzero(keys[1:] < keys[:-1]) + 1
    found = problems_of_rows(
        "chunk-refs-unsorted",
        refs.place,
        unsorted,
        index,
        lambda row: f"comes after {index[row - 1].tolist()}",
    )
    twice = repeats(keys)
    return found + problems_of_rows(
        "chunk-ref-duplicate", refs.place, twice, index, lambda _: "found again"
    )


def _check_extents(refs: ArrayRefs, index: Index, uses: tuple[ManifestUse, ...]) -> list[Problem]:
    """A chunk must be where one of those who use the manifest looks for it."""
    if not index.shape[1]:
        return []
    looked_for = np.zeros(len(index), dtype=np.bool_)
    inside = np.zeros(len(index), dtype=np.bool_)
    for use in uses:
        if not looked_for.all():
            looked_for |= covered_mask(index, use.extents)
        if not inside.all():
            inside |= (index < np.array(use.num_chunks, dtype=np.uint64)).all(axis=1)
    extents = uses[0].extents.tolist()
    grid = list(uses[0].num_chunks)
    found = problems_of_rows(
        "chunk-outside-extents",
        refs.place,
        np.flatnonzero(~looked_for),
        index,
        lambda _: f"{uses[0].snapshot} says {extents[:3]}",
    )
    return found + problems_of_rows(
        "chunk-outside-grid",
        refs.place,
        np.flatnonzero(~inside),
        index,
        lambda _: f"the grid in {uses[0].snapshot} is {grid}",
    )


def _check_native(refs: ArrayRefs, index: Index | None, objects: Objects) -> list[Problem]:
    native = np.flatnonzero(refs.kind == RefKind.NATIVE)
    if not len(native):
        return []
    at = native + refs.rows.start
    ids = refs.table.struct("chunk_id").values[at]
    sizes = objects.sizes_of(ids)
    offset = refs.table.scalar("offset").values[at]
    length = refs.table.scalar("length").values[at]
    missing = sizes < 0
    size = np.where(missing, 0, sizes).astype(np.uint64)
    beyond = ~missing & ((offset > size) | (length > size - np.minimum(offset, size)))

    def name(row: int) -> str:
        place = int(np.searchsorted(native, row))
        return format_base32(ids[place].tobytes())

    def reach(row: int) -> str:
        place = int(np.searchsorted(native, row))
        end = int(offset[place]) + int(length[place])
        return f"bytes {int(offset[place])} to {end} of chunks/{name(row)}, of {int(sizes[place])}"

    gone = problems_of_rows(
        "chunk-missing",
        refs.place,
        native[missing],
        index,
        lambda row: f"chunks/{name(row)} is not there",
    )
    return gone + problems_of_rows("chunk-out-of-bounds", refs.place, native[beyond], index, reach)


@dataclass(frozen=True, slots=True)
class RefCounts:
    native: int = 0
    inline: int = 0
    virtual: int = 0

    @property
    def refs(self) -> int:
        return self.native + self.inline + self.virtual

    def __add__(self, other: "RefCounts") -> "RefCounts":
        return RefCounts(
            self.native + other.native, self.inline + other.inline, self.virtual + other.virtual
        )


@dataclass(frozen=True, slots=True, eq=False)
class ManifestFacts:
    counts: RefCounts
    chunk_ids: npt.NDArray[np.uint8]  # (n, 12), of the objects it uses, repeated where packed
    ends: npt.NDArray[np.int64]  # (n,), bytes that each must have for its reference
    parts: tuple[ArrayRefs, ...]


def check_manifest(
    opened: OpenedFile, task: ManifestTask, surroundings: Surroundings, problems: list[Problem]
) -> ManifestFacts:
    check_id(opened, problems)
    key, arrays = opened.key, opened.root.tables("arrays").rows
    refs = arrays.tables("refs")
    problems += _check_listed(opened, task, len(refs.rows))
    node_ids = [raw.tobytes() for raw in arrays.struct("node_id").values]
    problems += _check_order(key, arrays)
    for use in task.uses:
        if use.raw_extents and use.node_id not in node_ids:
            text = f"{use.snapshot} looks for its chunks here"
            problems.append(problem("manifest-lacks-array", key, text, node=use.path))
    location = _locations(opened, refs.rows, problems)
    problems += check_texts(key, {"checksum_etag": refs.rows.string("checksum_etag")})
    if location is not None:
        problems += check_texts(key, {"location": location})
    kind = ref_kinds(refs.rows)
    parts = []
    for row, node_id in enumerate(node_ids):
        rows = slice(int(refs.splits[row]), int(refs.splits[row + 1]))
        uses = tuple(use for use in task.uses if use.node_id == node_id)
        part = ArrayRefs(key, node_id, uses, refs.rows, rows, kind, location)
        problems += check_array_refs(part, surroundings)
        parts.append(part)
    native = np.flatnonzero(kind == RefKind.NATIVE)
    return ManifestFacts(
        counts=RefCounts(
            native=len(native),
            inline=int(np.count_nonzero(kind == RefKind.INLINE)),
            virtual=int(np.count_nonzero(kind == RefKind.VIRTUAL)),
        ),
        chunk_ids=refs.rows.struct("chunk_id").values[native],
        ends=_ends(refs.rows, native),
        parts=tuple(parts),
    )


def _ends(rows: Table, chosen: Rows) -> npt.NDArray[np.int64]:
    """Ends of references in their objects; beyond what any object has if that is no number."""
    offset = rows.scalar("offset").values[chosen].astype(np.uint64)
    length = rows.scalar("length").values[chosen].astype(np.uint64)
    most = np.uint64(np.iinfo(np.int64).max)
    ends = np.where(length > _LAST - offset, most, offset + length)
    return np.minimum(ends, most).astype(np.int64)


def ref_kinds(rows: Table) -> npt.NDArray[np.uint8]:
    """The kind of each reference, as readers see it; 0 for none."""
    native = rows.struct("chunk_id").present
    virtual = rows.string("location").present | rows.string("compressed_location").present
    inline = rows.string("inline").present
    kind = np.zeros(len(rows), dtype=np.uint8)
    kind[inline] = RefKind.INLINE
    kind[virtual] = RefKind.VIRTUAL
    kind[native] = RefKind.NATIVE
    return kind


def _check_listed(opened: OpenedFile, task: ManifestTask, num_refs: int) -> list[Problem]:
    """Sizes and numbers of references that snapshots say."""
    problems = []
    name = format_base32(task.manifest)
    for each in task.listed:
        if each.size_bytes != opened.size_bytes:
            text = f"{name} is listed with {each.size_bytes} bytes, it has {opened.size_bytes}"
            problems.append(problem("manifest-size", each.snapshot, text))
        if each.num_refs != num_refs:
            text = f"{name} is listed with {each.num_refs} chunk refs, it has {num_refs}"
            problems.append(problem("manifest-count", each.snapshot, text))
    return problems


def _check_order(key: str, arrays: Table) -> list[Problem]:
    ids = arrays.struct("node_id").values
    keys = id_keys(ids)
    problems = []
    for row in descents(keys)[:1].tolist():
        text = f"node {format_base32(ids[row].tobytes())} comes after a greater id"
        problems.append(problem("manifest-arrays-unsorted", key, text))
    for row in repeats(keys)[:1].tolist():
        text = f"node {format_base32(ids[row].tobytes())} has two lists of chunks"
        problems.append(problem("manifest-array-duplicate", key, text))
    return problems


def _locations(opened: OpenedFile, rows: Table, problems: list[Problem]) -> StringColumn | None:
    """All of them, decompressed; None if that fails."""
    plain, compressed = rows.string("location"), rows.string("compressed_location")
    dictionary = opened.root.string("location_dictionary").item(0)
    algorithm = int(opened.root.scalar("compression_algorithm").values[0])
    try:
        found = decode_locations(EncodedLocations(plain, compressed, dictionary), algorithm)
        return StringColumn(found.codes, found.strings)
    except FormatError as error:
        problems.append(problem("location-compression", opened.key, error.message))
        return None
