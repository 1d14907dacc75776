"""What a new repository consists of. Spec: "Initialize New Repository"."""

from frazil.assets.layout import snapshot_key, transaction_key
from frazil.flatbuf.flexbuffers import Json
from frazil.format.nodes import Nodes
from frazil.format.repo_info import RepoInfo
from frazil.format.snapshot import Snapshot
from frazil.format.snapshot_infos import SnapshotInfos
from frazil.format.transaction_log import TransactionLog
from frazil.format.update_log import Availability, RepoInitialized, RepoStatus, Update
from frazil.ids import INITIAL_SNAPSHOT
from frazil.objectstore.protocol import ObjectStore
from frazil.repo.refs import MAIN

_MESSAGE = "Repository initialized"
_METADATA: dict[str, Json] = {"__icechunk": {"is_root": True}}


def is_clean(store: ObjectStore) -> bool:
    """Whether a repository may be created there: nothing is there, or what a process that died
    while it created one has left. Both files are written anew, under the same names.
    """
    leftovers = {snapshot_key(INITIAL_SNAPSHOT), transaction_key(INITIAL_SNAPSHOT)}
    return all(info.key in leftovers for info in store.list())


def initial_snapshot(now_us: int) -> Snapshot:
    """No nodes, not even a root group."""
    return Snapshot(
        id=INITIAL_SNAPSHOT,
        parent_id=None,
        flushed_at_us=now_us,
        message=_MESSAGE,
        metadata=_METADATA,
        manifest_files=(),
        nodes=Nodes.empty(),
    )


def initial_log() -> TransactionLog:
    return TransactionLog(id=INITIAL_SNAPSHOT)


def initial_repo_info(now_us: int, *, config: Json) -> RepoInfo:
    info = RepoInfo(
        spec_version=2,
        tags={},
        branches={},
        deleted_tags=(),
        snapshots=SnapshotInfos.empty(),
        status=RepoStatus(availability=Availability.ONLINE, set_at_us=now_us, reason=None),
        metadata={},
        updates=(Update(kind=RepoInitialized(), updated_at_us=now_us, backup_path=None),),
        before_updates=None,
        config=config,
        enabled_flags=(),
        disabled_flags=(),
    )
    info = info.with_snapshot(
        INITIAL_SNAPSHOT, parent=None, flushed_at_us=now_us, message=_MESSAGE, metadata=_METADATA
    )
    return info.with_branch(MAIN, INITIAL_SNAPSHOT)
