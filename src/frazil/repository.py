"""A repository, under the name it has in Icechunk."""

from frazil.api.repository import Repository
from frazil.api.session import IcechunkStore, Session
from frazil.zarrstore.iterators import AsyncCloseableIterator

__all__ = ["AsyncCloseableIterator", "IcechunkStore", "Repository", "Session"]
