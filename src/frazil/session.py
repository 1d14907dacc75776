"""A session, under the name it has in Icechunk."""

from frazil.api.session import IcechunkStore, Session
from frazil.api.values import SessionMode

__all__ = ["IcechunkStore", "Session", "SessionMode"]
