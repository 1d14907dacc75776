"""Where each file of a repository lives, below its root.

repo                      the entry point, the only object that is ever overwritten
snapshots/<id>            one per commit
manifests/<id>
transactions/<id>         one per commit, named after its snapshot
chunks/<id>
overwritten/repo.<t>.<r>  earlier versions of `repo`; <t> counts down, so the newest lists first
"""

from frazil.ids import ChunkId, ManifestId, ObjectId, SnapshotId

REPO_INFO = "repo"
SNAPSHOTS = "snapshots/"
MANIFESTS = "manifests/"
TRANSACTIONS = "transactions/"
CHUNKS = "chunks/"
OVERWRITTEN = "overwritten/"
V1_MAIN_BRANCH = "refs/branch.main/ref.json"

_YEAR_3000_MS = 32_503_680_000_000


def snapshot_key(snapshot: SnapshotId) -> str:
    return f"{SNAPSHOTS}{snapshot}"


def manifest_key(manifest: ManifestId) -> str:
    return f"{MANIFESTS}{manifest}"


def transaction_key(snapshot: SnapshotId) -> str:
    return f"{TRANSACTIONS}{snapshot}"


def chunk_key(chunk: ChunkId) -> str:
    return f"{CHUNKS}{chunk}"


def backup_name(now_us: int) -> str:
    """A fresh name for a copy of `repo`; the ops log cites it without the `overwritten/`."""
    return f"repo.{_YEAR_3000_MS - now_us // 1000:014d}.{ObjectId.random()}"
