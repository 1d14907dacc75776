"""Objects as files in a directory, and files that others write."""

from frazil.objectstore.local.local_store import LocalStore

__all__ = ["LocalStore"]
