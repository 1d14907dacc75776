"""What happened to a repository: history, snapshots, refs, ops_log."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime
from enum import Enum
from typing import Any

import numpy as np
import pyarrow as pa

from frazil.api.updates import Update, entries
from frazil.clock import from_datetime
from frazil.format.metadata import decode_metadata_of
from frazil.ids import format_ids
from frazil.repo.version import Exactly
from frazil.spark.tables.columns import batch_of, sliced, text_column, time_column
from frazil.spark.tables.context import TableContext

HISTORY = (
    "depth BIGINT, snapshot_id STRING, parent_id STRING, written_at TIMESTAMP, message STRING,"
    " metadata STRING"
)
SNAPSHOTS = (
    "snapshot_id STRING, parent_id STRING, written_at TIMESTAMP, message STRING, metadata STRING"
)
REFS = "kind STRING, name STRING, snapshot_id STRING"
OPS_LOG = (
    "position BIGINT, updated_at TIMESTAMP, kind STRING, name STRING, snapshot_id STRING,"
    " previous_snapshot_id STRING, details STRING, backup_path STRING"
)


def read_history(context: TableContext) -> Iterator[pa.RecordBatch]:
    """The snapshot and those before it; `depth` counts from it."""
    depth = 0
    for block, count in context.repository.ancestry_blocks(Exactly(context.snapshot)):
        yield batch_of(
            {
                "depth": pa.array(np.arange(depth, depth + count)),
                "snapshot_id": block.ids[:count],
                "parent_id": pa.array(block.parent_ids[:count], pa.string()),
                "written_at": time_column(block.flushed_at_us[:count]),
                "message": block.messages[:count],
                "metadata": [json.dumps(each) for each in block.metadata[:count]],
            }
        )
        depth += count


def read_snapshots(context: TableContext) -> Iterator[pa.RecordBatch]:
    """All there are, whether or not a branch or tag leads to them."""
    known = context.repository.repo_info().snapshots
    ids = pa.array(format_ids(known.ids), pa.string())
    parents, written = known.parents, known.flushed_at_us
    metadata = decode_metadata_of(known.table.tables("metadata"))
    batch = batch_of(
        {
            "snapshot_id": ids,
            "parent_id": ids.take(pa.array(parents, mask=parents < 0)),
            "written_at": time_column(written),
            "message": text_column(known.table.string("message")).fill_null(""),
            "metadata": [json.dumps(each) for each in metadata],
        }
    )
    until = context.request.as_of_us
    if until is not None:
        batch = batch.filter(pa.array(written <= until))
    yield from sliced(batch, context.request.batch_rows)


def read_refs(context: TableContext) -> Iterator[pa.RecordBatch]:
    branches, tags = context.repository.branches(), context.repository.tags()
    yield batch_of(
        {
            "kind": ["branch"] * len(branches) + ["tag"] * len(tags),
            "name": [*branches, *tags],
            "snapshot_id": [str(one) for one in (*branches.values(), *tags.values())],
        }
    )


def read_ops_log(context: TableContext) -> Iterator[pa.RecordBatch]:
    """Newest first; `position` counts from it."""
    until, position = context.request.as_of_us, 0
    for page in context.repository.ops_log_pages():
        listed = list(entries(page))
        kept = [
            (position + at, one)
            for at, one in enumerate(listed)
            if until is None or from_datetime(one.updated_at) <= until
        ]
        position += len(listed)
        yield _ops(kept)


def _ops(listed: list[tuple[int, Update]]) -> pa.RecordBatch:
    details = [_plain(asdict(one.kind)) for _, one in listed]
    return batch_of(
        {
            "position": pa.array([position for position, _ in listed], pa.int64()),
            "updated_at": time_column([from_datetime(one.updated_at) for _, one in listed]),
            "kind": pa.array([type(one.kind).__name__ for _, one in listed], pa.string()),
            "name": _texts([each.get("name", each.get("branch")) for each in details]),
            "snapshot_id": _texts([each.get("new_snap_id") for each in details]),
            "previous_snapshot_id": _texts([each.get("previous_snap_id") for each in details]),
            "details": _texts([json.dumps(each) for each in details]),
            "backup_path": _texts([one.backup_path for _, one in listed]),
        }
    )


def _texts(values: list[Any]) -> pa.Array:
    return pa.array(values, pa.string())


def _plain(value: Any) -> Any:
    """As JSON can say it: times in ISO, enumerations by name."""
    match value:
        case dict():
            return {key: _plain(each) for key, each in value.items()}
        case datetime():
            return value.isoformat()
        case Enum():
            return value.name
        case _:
            return value
