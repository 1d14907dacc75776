"""Entries of the ops log, under the name they have in Icechunk."""

from frazil.api import Update, UpdateType

__all__ = ["Update", "UpdateType"]
