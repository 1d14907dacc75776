"""A session, under the name it has in Icechunk."""

from frazil.api import ForkSession, IcechunkStore, Session, SessionMode

__all__ = ["ForkSession", "IcechunkStore", "Session", "SessionMode"]
