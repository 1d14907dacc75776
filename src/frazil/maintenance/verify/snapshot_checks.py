"""Checks of a snapshot file by itself; facts about it that other files are checked against."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from frazil.errors import FormatError
from frazil.flatbuf.flexbuffers import Json
from frazil.flatbuf.table import Table
from frazil.format.metadata import decode_metadata
from frazil.ids import format_base32
from frazil.maintenance.verify.column_checks import (
    check_texts,
    descents,
    first_descent,
    id_keys,
    repeats,
)
from frazil.maintenance.verify.file_reader import OpenedFile, check_id
from frazil.maintenance.verify.node_checks import (
    ListedManifest,
    ManifestUse,
    NodeFacts,
    Seen,
    check_nodes,
)
from frazil.maintenance.verify.problems import Problem, problem

# struct ManifestFileInfo of version 1
_SIZE_AT, _COUNT_AT = 16, 24


@dataclass(frozen=True, slots=True, eq=False)
class SnapshotFacts:
    """Facts about a snapshot that other files are checked against."""

    key: str
    spec_version: int
    parent: bytes | None
    flushed_at_us: int
    message: bytes
    metadata: dict[str, Json] | None  # None if it cannot be decoded
    nodes: NodeFacts
    uses: tuple[ManifestUse, ...]
    listed: tuple[ListedManifest, ...]


def check_snapshot(
    opened: OpenedFile, seen: Seen, problems: list[Problem], *, with_metadata: bool
) -> SnapshotFacts:
    """`with_metadata`: uses of manifests carry the zarr metadata of their arrays."""
    root, key = opened.root, opened.key
    check_id(opened, problems)
    parent = root.struct("parent_id")
    is_v2 = opened.spec_version >= 2
    if is_v2 and parent.present[0]:
        problems.append(problem("snapshot-parent-present", key, "`parent_id` is not empty"))
    problems += check_texts(key, {"message": root.string("message")})
    metadata = _check_metadata(opened, problems)
    nodes, uses = check_nodes(opened, seen, problems, with_metadata=with_metadata)
    listed = _check_list(opened, nodes.manifest_ids, problems)
    return SnapshotFacts(
        key=key,
        spec_version=opened.spec_version,
        parent=parent.values[0].tobytes() if parent.present[0] else None,
        flushed_at_us=int(root.scalar("flushed_at").values[0]),
        message=root.string("message").item(0) or b"",
        metadata=metadata,
        nodes=nodes,
        uses=tuple(uses),
        listed=tuple(
            each
            for each in listed
            if seen.is_new(b"file", each.manifest, each.size_bytes, each.num_refs)
        ),
    )


def _check_metadata(opened: OpenedFile, problems: list[Problem]) -> dict[str, Json] | None:
    items = opened.root.tables("metadata").rows
    problems += check_texts(opened.key, {"metadata": items.string("name")})
    names = [name or b"" for name in items.string("name").to_list()]
    row = first_descent(names)
    if row is not None:
        text = f"{names[row]!r} comes after {names[row - 1]!r}"
        problems.append(problem("snapshot-metadata-unsorted", opened.key, text))
    try:
        return decode_metadata(items, spec_version=opened.spec_version)
    except FormatError as error:
        problems.append(problem("snapshot-metadata-invalid", opened.key, error.message))
        return None


def _check_list(
    opened: OpenedFile, used: npt.NDArray[np.uint8], problems: list[Problem]
) -> list[ListedManifest]:
    """The list of manifests, which must name those that arrays use and no others."""
    root, key = opened.root, opened.key
    older, newer = root.vector("manifest_files"), root.tables("manifest_files_v2")
    is_v2 = opened.spec_version >= 2
    if is_v2 and len(older.values):
        text = f"{len(older.values)} manifests are in `manifest_files`"
        problems.append(problem("manifest-list-version", key, text))
    if is_v2 != bool(newer.present[0]):
        text = f"`manifest_files_v2` is {'absent' if is_v2 else 'present'}"
        problems.append(problem("manifest-list-version", key, text))
    ids, sizes, counts = _listed_manifests(root)
    keys = id_keys(ids)
    for row in descents(keys)[:1].tolist():
        text = f"row {row} is {format_base32(ids[row].tobytes())}"
        problems.append(problem("manifest-list-unsorted", key, text))
    for row in repeats(keys).tolist():
        text = f"{format_base32(ids[row].tobytes())} is listed again"
        problems.append(problem("manifest-list-duplicate", key, text))
    needed = np.unique(id_keys(used)) if len(used) else keys[:0]
    missing = np.setdiff1d(needed, keys)
    for raw in missing.tolist():
        text = f"{_name(raw)} is used by an array"
        problems.append(problem("manifest-unlisted", key, text))
    unused = [_name(raw) for raw in np.setdiff1d(keys, needed).tolist()]
    problems += [problem("manifest-unused", key, f"no array uses {name}") for name in unused]
    rows = zip(ids, sizes.tolist(), counts.tolist(), strict=True)
    return [ListedManifest(raw.tobytes(), size, count, key) for raw, size, count in rows]


def _listed_manifests(
    root: Table,
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint64], npt.NDArray[np.uint32]]:
    newer = root.tables("manifest_files_v2")
    if newer.present[0]:
        rows = newer.rows
        sizes, counts = rows.scalar("size_bytes").values, rows.scalar("num_chunk_refs").values
        return rows.struct("id").values, sizes, counts
    older = np.ascontiguousarray(root.vector("manifest_files").values)
    sizes = np.ascontiguousarray(older[:, _SIZE_AT : _SIZE_AT + 8]).view("<u8").reshape(-1)
    counts = np.ascontiguousarray(older[:, _COUNT_AT : _COUNT_AT + 4]).view("<u4").reshape(-1)
    return older[:, :12], sizes, counts


def _name(raw: bytes) -> str:
    return format_base32(raw.ljust(12, b"\0"))  # numpy takes zeros off the end
