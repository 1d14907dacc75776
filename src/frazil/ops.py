"""Entries of the ops log and sums of what was deleted, under the names they have in Icechunk."""

from frazil.api import GCSummary, Update, UpdateType

__all__ = ["GCSummary", "Update", "UpdateType"]
