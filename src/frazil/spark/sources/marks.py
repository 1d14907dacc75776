"""What tells versions of sources apart."""

import hashlib

from frazil.spark.sources.errors import source_errors_as_ours
from frazil.spark.sources.files import mark_of
from frazil.spark.sources.folders import Folder
from frazil.spark.sources.source import Source, SourceKind


def source_mark(source: Source) -> str:
    """Changes when the source does: size, time and, in buckets, ETag of its file or files.

    Raises ObjectNotFoundError.
    """
    if source.kind is not SourceKind.ZARR:
        found = mark_of(source)
        return f"{found.size_bytes} {found.modified_at_us} {found.etag}"
    with source_errors_as_ours(source.path):
        entries = sorted(
            (each.key, each.size_bytes, each.modified_at_us) for each in Folder.of(source).entries()
        )
    return hashlib.sha256(repr(entries).encode(), usedforsecurity=False).hexdigest()
