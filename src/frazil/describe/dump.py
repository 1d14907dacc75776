"""Any metadata file as JSON values that people can read.

Field names are those of the reference's `inspect_*` functions where those show the same thing.
"""

from collections.abc import Buffer, Callable, Iterable
from dataclasses import fields
from itertools import islice

import numpy as np
import numpy.typing as npt

from frazil.clock import to_datetime
from frazil.errors import FormatError
from frazil.flatbuf.flexbuffers import Json
from frazil.format.chunk_refs import (
    ChunkRefs,
    ETag,
    Inline,
    LastModified,
    Native,
    Payload,
    RefKind,
    Virtual,
)
from frazil.format.envelope import FileType, decode_header
from frazil.format.manifest import decode_manifest
from frazil.format.nodes import ArrayData, Node
from frazil.format.repo_info import decode_repo_info
from frazil.format.schemas import UPDATE_KINDS
from frazil.format.snapshot import decode_snapshot
from frazil.format.transaction_log import decode_txlog
from frazil.format.update_log import RepoStatus, Update, UpdateKind, number_of
from frazil.ids import ObjectId, format_ids

DEFAULT_MAX_ROWS = 100
_SHOWN_BYTES = 64


def dump(data: Buffer, *, max_rows: int | None = DEFAULT_MAX_ROWS) -> dict[str, Json]:
    """The content of a file of any kind; the kind is read from its header.

    Of each list of references, snapshots or nodes at most `max_rows` are shown, None for all;
    counts are always complete.
    """
    header = decode_header(data)
    show = _DUMPERS.get(header.file_type)
    if show is None:
        raise FormatError(
            f"files of type {header.file_type.name} have no content", kind="invalid-file-format"
        )
    return {
        "header": {
            "written_by": header.writer,
            "spec_version": header.spec_version,
            "file_type": header.file_type.name.lower().replace("_", "-"),
            "compression": "zstd" if header.compression else "none",
        },
        **show(data, max_rows),
    }


def _time(microseconds: int) -> str:
    try:
        return to_datetime(microseconds).isoformat()
    except OverflowError:
        return f"{microseconds} us"


def _first_rows(items: Iterable[Json], max_rows: int | None) -> list[Json]:
    return list(islice(items, max_rows))


def _ids(rows: npt.NDArray[np.uint8], max_rows: int | None) -> list[Json]:
    return list(format_ids(rows[:max_rows])) if len(rows) else []


# ---- repo info -----------------------------------------------------------------------------


def _dump_repo_info(data: Buffer, max_rows: int | None) -> dict[str, Json]:
    info = decode_repo_info(data)
    snapshots = info.snapshots

    def snapshot(row: int) -> dict[str, Json]:
        parent = int(snapshots.parents[row])
        return {
            "id": str(snapshots.id(row)),
            "parent_id": None if parent < 0 else str(snapshots.id(parent)),
            "flushed_at": _time(int(snapshots.flushed_at_us[row])),
            "message": snapshots.message(row),
            "metadata": snapshots.metadata(row),
            "pruned_ancestor_tx_logs": [str(ObjectId(raw)) for raw in snapshots.pruned_logs(row)],
        }

    return {
        "spec_version": info.spec_version,
        "branches": {name: str(snapshots.id(row)) for name, row in info.branches.items()},
        "tags": {name: str(snapshots.id(row)) for name, row in info.tags.items()},
        "deleted_tags": list(info.deleted_tags),
        "status": _status(info.status),
        "metadata": info.metadata,
        "config": info.config,
        "enabled_feature_flags": list(info.enabled_flags),
        "disabled_feature_flags": list(info.disabled_flags),
        "num_snapshots": len(snapshots),
        "snapshots": _first_rows(map(snapshot, range(len(snapshots))), max_rows),
        "num_latest_updates": len(info.updates),
        "latest_updates": _first_rows(map(_update, info.updates), max_rows),
        "repo_before_updates": info.before_updates,
    }


def _status(status: RepoStatus) -> dict[str, Json]:
    return {
        "availability": status.availability.label,
        "set_at": _time(status.set_at_us),
        "limited_availability_reason": status.reason,
    }


def _update(update: Update) -> dict[str, Json]:
    return {
        "update_type": _update_kind(update.kind),
        "updated_at": _time(update.updated_at_us),
        "backup_path": update.backup_path,
    }


def _update_kind(kind: UpdateKind) -> dict[str, Json]:
    shown: dict[str, Json] = {"type": UPDATE_KINDS[number_of(kind)].name}
    for each in fields(kind):
        match getattr(kind, each.name):
            case ObjectId() as snapshot:
                shown[f"{each.name}_snap_id"] = str(snapshot)
            case RepoStatus() as status:
                shown[each.name] = _status(status)
            case value:
                shown[each.name] = value
    return shown


# ---- snapshot ------------------------------------------------------------------------------


def _dump_snapshot(data: Buffer, max_rows: int | None) -> dict[str, Json]:
    snapshot = decode_snapshot(data)
    files = snapshot.manifest_files
    return {
        "id": str(snapshot.id),
        "parent_id": None if snapshot.parent_id is None else str(snapshot.parent_id),
        "flushed_at": _time(snapshot.flushed_at_us),
        "commit_message": snapshot.message,
        "metadata": snapshot.metadata,
        "num_manifests": len(files),
        "manifests": _first_rows(
            (
                {"id": str(f.id), "size_bytes": f.size_bytes, "num_chunk_refs": f.num_refs}
                for f in files
            ),
            max_rows,
        ),
        "num_nodes": len(snapshot.nodes),
        "nodes": _first_rows((_node(node, max_rows) for node in snapshot.nodes), max_rows),
    }


def _node(node: Node, max_rows: int | None) -> dict[str, Json]:
    shown: dict[str, Json] = {
        "id": str(node.id),
        "path": node.path.text,
        "node_type": "array" if node.is_array else "group",
        "user_data": node.user_data.decode("utf-8", "replace"),
    }
    return shown if node.array is None else shown | _array(node.array, max_rows)


def _array(array: ArrayData, max_rows: int | None) -> dict[str, Json]:
    names = array.dimension_names or (None,) * len(array.shape)
    axes = zip(names, array.shape, array.num_chunks, strict=False)
    return {
        "shape": [
            {"name": name, "array_length": length, "num_chunks": chunks}
            for name, length, chunks in axes
        ],
        "manifest_refs": _first_rows(
            (
                {"id": str(ref.id), "extents": [list(extent) for extent in ref.extents]}
                for ref in array.manifests
            ),
            max_rows,
        ),
    }


# ---- manifest ------------------------------------------------------------------------------


def _dump_manifest(data: Buffer, max_rows: int | None) -> dict[str, Json]:
    manifest = decode_manifest(data)
    return {
        "id": str(manifest.id),
        "num_arrays": len(manifest.arrays),
        "total_chunk_refs": manifest.num_refs,
        "arrays": [
            {
                "node_id": str(node),
                "num_chunk_refs": len(refs),
                **{f"num_{kind.name.lower()}": _count(refs, kind) for kind in RefKind},
                "refs": _first_rows((_ref(refs, row) for row in range(len(refs))), max_rows),
            }
            for node, refs in manifest.arrays.items()
        ],
    }


def _count(refs: ChunkRefs, kind: RefKind) -> int:
    return int(np.count_nonzero(refs.kind == kind))


def _ref(refs: ChunkRefs, row: int) -> dict[str, Json]:
    return {"index": list(refs.index[row].tolist()), **_payload(refs.payload(row))}


def _payload(payload: Payload) -> dict[str, Json]:
    match payload:
        case Inline(data):
            shown = data[:_SHOWN_BYTES].hex()
            return {"inline": shown + "..." * (len(data) > _SHOWN_BYTES), "length": len(data)}
        case Native(chunk_id, offset, length):
            return {"chunk_id": str(chunk_id), "offset": offset, "length": length}
        case Virtual(location, offset, length, checksum):
            shown_ref: dict[str, Json] = {
                "location": location,
                "offset": offset,
                "length": length,
            }
            match checksum:
                case ETag(value):
                    shown_ref["checksum_etag"] = value
                case LastModified(seconds):
                    shown_ref["checksum_last_modified"] = _time(seconds * 1_000_000)
            return shown_ref


# ---- transaction log -----------------------------------------------------------------------


def _dump_txlog(data: Buffer, max_rows: int | None) -> dict[str, Json]:
    log = decode_txlog(data)
    return {
        "id": str(log.id),
        **{name: _ids(ids, max_rows) for name, ids in log.node_lists()},
        "updated_chunks": [
            {"node_id": str(node), "num_chunks": len(index), "chunks": index[:max_rows].tolist()}
            for node, index in log.updated_chunks.items()
        ],
        "moved_nodes": _first_rows(
            (
                {
                    "from": move.from_path.text,
                    "to": move.to_path.text,
                    "node_id": str(move.node_id),
                    "node_type": "array" if move.is_array else "group",
                }
                for move in log.moved
            ),
            max_rows,
        ),
    }


_DUMPERS: dict[FileType, Callable[[Buffer, int | None], dict[str, Json]]] = {
    FileType.REPO_INFO: _dump_repo_info,
    FileType.SNAPSHOT: _dump_snapshot,
    FileType.MANIFEST: _dump_manifest,
    FileType.TRANSACTION_LOG: _dump_txlog,
}
