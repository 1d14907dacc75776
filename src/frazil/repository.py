"""A repository, under the name it has in Icechunk."""

from frazil.api import IcechunkStore, Repository, Session
from frazil.zarrstore.iterators import AsyncCloseableIterator

__all__ = ["AsyncCloseableIterator", "IcechunkStore", "Repository", "Session"]
