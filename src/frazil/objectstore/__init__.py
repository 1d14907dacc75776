"""Blobs by key, with preconditions. Knows nothing of Icechunk."""

from frazil.objectstore.local.local_store import LocalStore
from frazil.objectstore.memory import MemoryStore
from frazil.objectstore.protocol import (
    ABSENT,
    ALWAYS,
    Absent,
    Always,
    Blob,
    Data,
    DataList,
    Matches,
    ObjectInfo,
    ObjectStore,
    Precondition,
    RemoteSettings,
    content_version,
)
from frazil.objectstore.wrappers import Counting, Prefixed, ReadOnly, Request

__all__ = [
    "ABSENT",
    "ALWAYS",
    "Absent",
    "Always",
    "Blob",
    "Counting",
    "Data",
    "DataList",
    "LocalStore",
    "Matches",
    "MemoryStore",
    "ObjectInfo",
    "ObjectStore",
    "Precondition",
    "Prefixed",
    "ReadOnly",
    "RemoteSettings",
    "Request",
    "content_version",
]
