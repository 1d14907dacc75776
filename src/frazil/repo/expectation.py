"""Snapshots fetched on the expectation that nothing has changed, while the store is asked."""

from contextlib import suppress

from frazil.assets.files import Files
from frazil.errors import IcechunkError
from frazil.format.repo_info import RepoInfo
from frazil.ids import SnapshotId
from frazil.repo import history
from frazil.repo.entry import EntryPoint
from frazil.repo.version import Version, resolve


def fetch_for_session(files: Files, entry: EntryPoint, version: Version) -> RepoInfo:
    """As of now. From a far store, what `version` was so far has then come along."""
    expected = _expected(files, version)
    if expected is None:
        return entry.fetch()

    def fetch_expected() -> None:
        with suppress(IcechunkError):  # whoever needs it will be told
            files.fetch_snapshot(expected)

    return files.pool.beside(fetch_expected, entry.fetch)


def _expected(files: Files, version: Version) -> SnapshotId | None:
    """The snapshot that is likely to be needed, and is not at hand."""
    known = files.newest_repo_info
    if known is None or not files.store.far:
        return None
    try:
        snapshot = history.snapshot_id(known, resolve(known, version))
    except IcechunkError:
        return None
    return None if files.caches.snapshots.find(snapshot) is not None else snapshot
