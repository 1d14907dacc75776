"""Snapshots and what differs between them, under the name they have in Icechunk."""

from frazil.api import AncestryGraph, Diff, ManifestFileInfo, SnapshotInfo

__all__ = ["AncestryGraph", "Diff", "ManifestFileInfo", "SnapshotInfo"]
