"""A session as a zarr Store, under the name it has in Icechunk."""

from frazil.api import IcechunkStore
from frazil.zarrstore.store import AsyncCloseableIterator

__all__ = ["AsyncCloseableIterator", "IcechunkStore"]
