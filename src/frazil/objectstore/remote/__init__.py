"""Objects in buckets and on web servers, through obstore; loaded when a name is first used."""

# A name that is imported `as` itself is re-exported, for type checkers.
# ruff: isort: skip_file

from typing import TYPE_CHECKING

from frazil.lazy import attach

if TYPE_CHECKING:  # loaded at first use, from the modules below
    from frazil.objectstore.remote.azure import AzurePlace as AzurePlace
    from frazil.objectstore.remote.gcs import GcsPlace as GcsPlace
    from frazil.objectstore.remote.place import (
        Headers as Headers,
        HttpPlace as HttpPlace,
        RemotePlace as RemotePlace,
    )
    from frazil.objectstore.remote.redirect import (
        GuardedSource as GuardedSource,
        RedirectedStore as RedirectedStore,
    )
    from frazil.objectstore.remote.remote_store import (
        RemoteSource as RemoteSource,
        RemoteStore as RemoteStore,
    )
    from frazil.objectstore.remote.s3 import (
        BucketRoot as BucketRoot,
        S3Place as S3Place,
        require_checksum as require_checksum,
    )

attach(
    __name__,
    {
        "frazil.objectstore.remote.azure": ["AzurePlace"],
        "frazil.objectstore.remote.gcs": ["GcsPlace"],
        "frazil.objectstore.remote.place": ["Headers", "HttpPlace", "RemotePlace"],
        "frazil.objectstore.remote.redirect": ["GuardedSource", "RedirectedStore"],
        "frazil.objectstore.remote.remote_store": ["RemoteSource", "RemoteStore"],
        "frazil.objectstore.remote.s3": ["BucketRoot", "S3Place", "require_checksum"],
    },
)
