"""Objects in buckets and on web servers, through obstore."""

from frazil.objectstore.remote.remote_store import RemoteStore

__all__ = ["RemoteStore"]
