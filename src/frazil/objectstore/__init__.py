"""Blobs by key, with preconditions. Knows nothing of Icechunk."""

# A name that is imported `as` itself is re-exported, for type checkers.
# ruff: isort: skip_file

from typing import TYPE_CHECKING

from frazil.lazy import attach

if TYPE_CHECKING:  # loaded at first use, from the modules below
    from frazil.objectstore.local.local_store import LocalStore as LocalStore
    from frazil.objectstore.memory import MemoryStore as MemoryStore
    from frazil.objectstore.protocol import (
        ABSENT as ABSENT,
        ALWAYS as ALWAYS,
        Absent as Absent,
        Always as Always,
        Blob as Blob,
        Data as Data,
        DataList as DataList,
        Matches as Matches,
        ObjectInfo as ObjectInfo,
        ObjectStore as ObjectStore,
        Precondition as Precondition,
        RemoteSettings as RemoteSettings,
        content_version as content_version,
    )
    from frazil.objectstore.wrappers import (
        Counting as Counting,
        Prefixed as Prefixed,
        ReadOnly as ReadOnly,
        Request as Request,
    )

attach(
    __name__,
    {
        "frazil.objectstore.local.local_store": ["LocalStore"],
        "frazil.objectstore.memory": ["MemoryStore"],
        "frazil.objectstore.protocol": [
            *("ABSENT", "ALWAYS", "Absent", "Always", "Blob", "Data", "DataList", "Matches"),
            *("ObjectInfo", "ObjectStore", "Precondition", "RemoteSettings", "content_version"),
        ],
        "frazil.objectstore.wrappers": ["Counting", "Prefixed", "ReadOnly", "Request"],
    },
)
