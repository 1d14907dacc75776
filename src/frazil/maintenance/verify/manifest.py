"""A manifest file against what snapshots say of it, and against the objects that are there."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from frazil.errors import FormatError
from frazil.flatbuf.columns import StringColumn
from frazil.flatbuf.table import Table
from frazil.format.locations import EncodedLocations, decode_locations
from frazil.format.payloads import RefKind
from frazil.ids import format_base32
from frazil.maintenance.verify.array_refs import ArrayRefs, Surroundings, check_array_refs
from frazil.maintenance.verify.opening import OpenedFile, check_id
from frazil.maintenance.verify.orders import descents, id_keys, repeats
from frazil.maintenance.verify.problems import Problem, problem
from frazil.maintenance.verify.texts import check_texts
from frazil.maintenance.verify.uses import ManifestTask


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
        parts=tuple(parts),
    )


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
