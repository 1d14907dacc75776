"""The metadata files of a repository as plain records, in the terms of the reference's `inspect_*`.

For every file there is, also those no snapshot refers to. `frazil dump` shows more, of one file.
"""

from collections.abc import Buffer, Sequence
from dataclasses import fields

import numpy as np

from frazil.clock import to_datetime
from frazil.describe.dump import DEFAULT_MAX_ROWS, dump
from frazil.engine.files.files import Files, annotate_errors
from frazil.engine.files.object_keys import REPO_INFO, manifest_key, snapshot_key, transaction_key
from frazil.engine.refs.entries import older_generations
from frazil.engine.refs.repo_settings import require_version_2
from frazil.engine.repository import Repository
from frazil.errors import FormatError, ObjectNotFoundError
from frazil.flatbuf.decode import decode
from frazil.flatbuf.flexbuffers import Json
from frazil.format.chunk_index import distinct
from frazil.format.chunk_refs import RefKind
from frazil.format.envelope import FileType, decode_envelope, decode_header
from frazil.format.nodes import ArrayData, Node
from frazil.format.repo_info import RepoInfo, decode_repo_info
from frazil.format.schemas import MANIFEST, UPDATE_KINDS
from frazil.format.snapshot import Snapshot, decode_snapshot
from frazil.format.transaction_log import NODE_LISTS, Move, TransactionLog, decode_txlog
from frazil.format.update_log import (
    FeatureFlagChanged,
    RepoMigrated,
    RepoStatus,
    Update,
    UpdateKind,
    number_of,
)
from frazil.ids import ManifestId, NodeId, ObjectId, SnapshotId, format_ids
from frazil.objectstore.protocol import ObjectStore

# Several transaction logs as one: those of expired snapshots, listed with their successor.


def composite(logs: Sequence[TransactionLog]) -> TransactionLog:
    """The sum of `logs`, oldest first, under the name of the newest.

    A node may be new, updated and deleted at once. One that was moved several times has gone from
    its first place to its last.
    """
    nodes = sorted({node for log in logs for node in log.updated_chunks})
    return TransactionLog(
        id=logs[-1].id,
        **{
            name: np.unique(np.concatenate([getattr(log, name) for log in logs]), axis=0)
            for name in NODE_LISTS
        },
        updated_chunks={
            node: distinct(
                np.concatenate(
                    [log.updated_chunks[node] for log in logs if node in log.updated_chunks]
                )
            )
            for node in nodes
        },
        moved=_compose_moves([move for log in logs for move in log.moved]),
    )


def _compose_moves(moves: list[Move]) -> tuple[Move, ...]:
    journeys: dict[NodeId, Move] = {}
    for move in moves:
        start = journeys.get(move.node_id, move).from_path
        journeys[move.node_id] = Move(start, move.to_path, move.node_id, move.is_array)
    return tuple(sorted(journeys.values(), key=lambda move: move.to_path.segments))


type Record = dict[str, Json]

_COMPOSITE_NOTE = (
    "the snapshots before this one were expired: this is the sum of their transaction logs and"
    " its own; the header is that of its own"
)


def dump_file(data: Buffer, *, max_rows: int | None = DEFAULT_MAX_ROWS) -> Record:
    """Any metadata file as JSON: see format/dump.py.

    Files of generations before version 1 are shown as they are stored.
    """
    try:
        return dump(data, max_rows=max_rows)
    except FormatError:
        record = older_generations().dump(data, max_rows=max_rows)
        if record is None:
            raise
        return record


def inspect_snapshot(repository: Repository, snapshot: SnapshotId) -> Record:
    files = repository.files
    if not files.has_current_encoding:
        return _snapshot(files.fetch_snapshot(snapshot), _generation(files))
    key = snapshot_key(snapshot)
    data = files.store.get(key).data
    with annotate_errors(key):
        return _snapshot(decode_snapshot(data), _header(data))


def _snapshot(snapshot: Snapshot, header: Record) -> Record:
    return {
        "id": str(snapshot.id),
        "header": header,
        "flushed_at": time_text(snapshot.flushed_at_us),
        "commit_message": snapshot.message,
        "metadata": snapshot.metadata,
        "manifests": [
            {"id": str(file.id), "size_bytes": file.size_bytes, "num_chunk_refs": file.num_refs}
            for file in snapshot.manifest_files
        ],
        "nodes": [_node(node) for node in snapshot.nodes],
    }


def inspect_repo_info(repository: Repository) -> Record:
    require_version_2(repository.spec_version)
    data = repository.store.get(REPO_INFO).data
    with annotate_errors(REPO_INFO):
        info = decode_repo_info(data)
        ids = format_ids(info.snapshots.ids)
        record: Record = {
            "header": _header(data),
            "spec_version": _version(info.spec_version),
            "branches": {name: ids[row] for name, row in info.branches.items()},
            "tags": {name: ids[row] for name, row in info.tags.items()},
            "deleted_tags": list(info.deleted_tags),
            "snapshots": [_snapshot_info(info, row, ids) for row in range(len(ids))],
            "metadata": info.metadata,
            "latest_updates": [_update(update) for update in info.updates],
        }
        return record | _drop_none(repo_before_updates=info.before_updates)


def inspect_manifest(repository: Repository, manifest: ManifestId) -> Record:
    """Counts only; looks at no location, so that compressed ones stay compressed."""
    files = repository.files
    if not files.has_current_encoding:
        return _older_manifest(files, manifest)
    key = manifest_key(manifest)
    data = files.store.get(key).data
    with annotate_errors(key):
        payload = decode_envelope(data, FileType.MANIFEST).data
        root = decode(payload, MANIFEST)
        arrays = root.tables("arrays").rows
        refs = arrays.tables("refs")
        native = refs.rows.struct("chunk_id").present
        compressed = refs.rows.string("compressed_location").present
        virtual = (refs.rows.string("location").present | compressed) & ~native
        kinds = {"inline": ~(native | virtual), "native": native, "virtual": virtual}
        dictionary = root.string("location_dictionary").item(0)
        return {
            "id": str(ManifestId(root.struct("id").values[0].tobytes())),
            "header": _header(data),
            "size_bytes": len(payload),
            "num_arrays": len(arrays),
            "total_chunk_refs": len(refs.rows),
            **{f"total_{kind}": int(rows.sum()) for kind, rows in kinds.items()},
            "arrays": [
                {
                    "node_id": node,
                    "num_chunk_refs": int(stop - start),
                    **{f"num_{kind}": int(rows[start:stop].sum()) for kind, rows in kinds.items()},
                }
                for node, start, stop in zip(
                    format_ids(arrays.struct("node_id").values),
                    refs.splits[:-1],
                    refs.splits[1:],
                    strict=True,
                )
            ],
            "compression": {
                "uses_location_compression": bool(compressed.any()),
                **_drop_none(dictionary_size_bytes=None if dictionary is None else len(dictionary)),
                "num_compressed_refs": int(np.count_nonzero(compressed)),
            },
        }


def _older_manifest(files: Files, manifest: ManifestId) -> Record:
    decoded = files.fetch_manifest(manifest)
    kinds = {"inline": RefKind.INLINE, "native": RefKind.NATIVE, "virtual": RefKind.VIRTUAL}
    counts = {
        name: [int(np.count_nonzero(refs.kind == kind)) for refs in decoded.arrays.values()]
        for name, kind in kinds.items()
    }
    return {
        "id": str(decoded.id),
        "header": _generation(files),
        "size_bytes": files.store.head(manifest_key(manifest)).size_bytes,
        "num_arrays": len(decoded.arrays),
        "total_chunk_refs": decoded.num_refs,
        **{f"total_{name}": sum(each) for name, each in counts.items()},
        "arrays": [
            {
                "node_id": str(node),
                "num_chunk_refs": len(refs),
                **{f"num_{name}": each[at] for name, each in counts.items()},
            }
            for at, (node, refs) in enumerate(decoded.arrays.items())
        ],
        "compression": {"uses_location_compression": False, "num_compressed_refs": 0},
    }


def inspect_transaction_log(repository: Repository, snapshot: SnapshotId) -> Record:
    """The log of a commit, merged with those of expired ancestors that the snapshot stands for.

    Where an older generation kept no log, it is derived from the snapshots.
    """
    files = repository.files
    if not files.has_current_encoding:
        return {"header": _generation(files), **_log(files.fetch_log(snapshot))}
    snapshots = repository.repo_info().snapshots
    row = snapshots.find(snapshot)
    pruned = [] if row < 0 else [SnapshotId(raw) for raw in snapshots.pruned_logs(row)]
    key = transaction_key(snapshot)
    data = files.store.get(key).data
    with annotate_errors(key):
        log = decode_txlog(data)
    record: Record = {"header": _header(data)}
    if not pruned:
        return record | _log(log)
    found, missing = _fetch_logs(files.store, pruned)
    return (
        record
        | _log(composite([*found.values(), log]))
        | {
            "synthetic_composite": {
                "note": _COMPOSITE_NOTE,
                "merged_pruned_ancestor_tx_logs": [str(each) for each in found],
                "missing_tx_logs": [str(each) for each in missing],
            }
        }
    )


def _fetch_logs(
    store: ObjectStore, wanted: list[SnapshotId]
) -> tuple[dict[SnapshotId, TransactionLog], list[SnapshotId]]:
    """The logs that are there, and the ids of the others."""
    found, missing = dict[SnapshotId, TransactionLog](), list[SnapshotId]()
    for snapshot in wanted:
        key = transaction_key(snapshot)
        try:
            data = store.get(key).data
        except ObjectNotFoundError:
            missing.append(snapshot)
            continue
        with annotate_errors(key):
            found[snapshot] = decode_txlog(data)
    return found, missing


# ---- parts ---------------------------------------------------------------------------------


def _header(data: Buffer) -> Record:
    header = decode_header(data)
    app, dash, version = header.writer.partition("-")
    return {
        "written_by": header.writer,
        "app_name": app,
        **_drop_none(app_version=version if dash else None),
        "spec_version": _version(header.spec_version),
        "file_type": header.file_type.name.lower().replace("_", "-"),
        "compression": "zstd" if header.compression else "none",
    }


def _generation(files: Files) -> Record:
    """The generation in place of a header, which files before version 1 lack."""
    return {"generation": str(files.settings.generation)}


def _version(number: int) -> str:
    return f"{number}.0"


def time_text(microseconds: int) -> str:
    """RFC 3339, with as many digits in groups of three as it takes."""
    try:
        when = to_datetime(microseconds).replace(tzinfo=None)
    except OverflowError:  # what no calendar holds
        return f"{microseconds} us"
    precision = "microseconds" if when.microsecond % 1000 else "milliseconds"
    return when.isoformat(timespec=precision if when.microsecond else "seconds") + "Z"


def _drop_none(**values: Json) -> Record:
    """Fields that are left out where there is nothing to say."""
    return {name: value for name, value in values.items() if value is not None}


def _node(node: Node) -> Record:
    record: Record = {
        "id": str(node.id),
        "path": node.path.text,
        "node_type": "group" if node.array is None else "array",
    }
    return record if node.array is None else record | _array(node.array)


def _array(array: ArrayData) -> Record:
    names = array.dimension_names or (None,) * len(array.shape)
    return {
        "shape": [
            {**_drop_none(name=name), "array_length": length, "num_chunks": chunks}
            for name, length, chunks in zip(names, array.shape, array.num_chunks, strict=True)
        ],
        "manifest_refs": [
            {"id": str(ref.id), "extents": [list(extent) for extent in ref.extents]}
            for ref in array.manifests
        ],
    }


def _snapshot_info(info: RepoInfo, row: int, ids: list[str]) -> Record:
    snapshots = info.snapshots
    parent = int(snapshots.parents[row])
    return {
        "id": ids[row],
        **_drop_none(parent_id=None if parent < 0 else ids[parent]),
        "flushed_at": time_text(int(snapshots.flushed_at_us[row])),
        "message": snapshots.message(row),
        "metadata": snapshots.metadata(row),
    }


def _update(update: Update) -> Record:
    return {
        "update_type": _update_kind(update.kind),
        "updated_at": time_text(update.updated_at_us),
        **_drop_none(backup_path=update.backup_path),
    }


def _update_kind(kind: UpdateKind) -> Record:
    name = UPDATE_KINDS[number_of(kind)].name
    if isinstance(kind, FeatureFlagChanged):
        name = "FeatureFlagChanged"  # so spelled there, unlike all others
    record: Record = {"type": name}
    for each in fields(kind):
        match getattr(kind, each.name):
            case ObjectId() as snapshot:
                record[f"{each.name}_snap_id"] = str(snapshot)
            case RepoStatus() as status:
                record[each.name] = {
                    "availability": status.availability.name.title().replace("_", ""),
                    "set_at": time_text(status.set_at_us),
                    "limited_availability_reason": status.reason,
                }
            case int(number) if isinstance(kind, RepoMigrated):
                record[each.name] = _version(number)
            case value:
                record[each.name] = value
    return record


def _log(log: TransactionLog) -> Record:
    return {
        **{name: [*format_ids(ids)] if len(ids) else [] for name, ids in log.node_lists()},
        "updated_chunks": [
            {"node_id": str(node), "chunks": index.tolist()}
            for node, index in sorted(log.updated_chunks.items())
        ],
        "moved_nodes": [
            {"from": move.from_path.text, "to": move.to_path.text} for move in log.moved
        ],
    }
