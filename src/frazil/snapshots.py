"""Snapshots and differences between them, under the names they have in Icechunk."""

# ruff: noqa: PLC0414 -- a name that is imported `as` itself is re-exported, for type checkers
# ruff: isort: skip_file

from frazil.api.history import AncestryGraph as AncestryGraph
from frazil.api.values import (
    Diff as Diff,
    ManifestFileInfo as ManifestFileInfo,
    SnapshotInfo as SnapshotInfo,
)
from frazil.lazy import export_all

export_all(globals())
