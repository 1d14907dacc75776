"""The chunk references of one array in one manifest, column by column."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from frazil.flatbuf.columns import StringColumn
from frazil.flatbuf.ragged import even_length
from frazil.flatbuf.table import Table
from frazil.format.containers import Containers
from frazil.format.index_keys import Box, is_ascending
from frazil.format.payloads import RefKind
from frazil.ids import format_base32
from frazil.maintenance.verify.extents import covered
from frazil.maintenance.verify.locations import check_locations
from frazil.maintenance.verify.objects import Objects
from frazil.maintenance.verify.orders import repeats
from frazil.maintenance.verify.problems import Place, Problem, problems_of_rows
from frazil.maintenance.verify.uses import ManifestUse

type Index = npt.NDArray[np.uint32]  # (n, ndim)


@dataclass(frozen=True, slots=True, eq=False)
class Surroundings:
    """Objects and containers that references are checked against."""

    objects: Objects | None  # those of chunks; None if they are not looked for
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
        problems += _check_order(refs, index)
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


def _check_order(refs: ArrayRefs, index: Index) -> list[Problem]:
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
            looked_for |= covered(index, use.extents)
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
