"""A repository, under the name it has in Icechunk. Limits are frazil's own."""

from frazil.api import IcechunkStore, Repository, Session
from frazil.format.limits import Limits
from frazil.zarrstore.store import AsyncCloseableIterator

__all__ = ["AsyncCloseableIterator", "IcechunkStore", "Limits", "Repository", "Session"]
