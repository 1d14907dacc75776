"""Snapshots and what differs between them, under the name they have in Icechunk."""

from frazil.api.values import Diff, ManifestFileInfo, SnapshotInfo

__all__ = ["Diff", "ManifestFileInfo", "SnapshotInfo"]
