"""The repo info, and the configuration of version 1."""

from dataclasses import replace

from frazil.clock import to_datetime
from frazil.engine.files.object_keys import CONFIG_YAML, OVERWRITTEN, REPO_INFO, SNAPSHOTS
from frazil.errors import IcechunkError
from frazil.flatbuf.columns import StringColumn
from frazil.flatbuf.encode import encode_parts
from frazil.flatbuf.flexbuffers import encode_flexbuffer
from frazil.format.config_codec import decode_config, decode_config_yaml
from frazil.format.envelope import FileType, encode_envelope
from frazil.format.repo_info import RepoInfo, decode_repo_info, encode_repo_info
from frazil.format.schemas import IDENTIFIER
from frazil.format.snapshot import decode_snapshot_head
from frazil.format.update_log import ConfigChanged, UpdateLog, number_of
from frazil.maintenance.repair.repair_steps import RepairStep
from frazil.maintenance.verify.entry_checks import backups
from frazil.maintenance.verify.file_reader import open_file
from frazil.maintenance.verify.stored_objects import Listing
from frazil.objectstore.protocol import Blob, ObjectStore

_MOST_BACKUPS = 20  # looked at; names tell when they were made, not quite what state they are of

_LOST = {"repository-missing", "repo-info-unreadable", "ref-dangling"}
_SHUFFLED = {
    "repo-info-version",
    "refs-unsorted",
    "deleted-tags-unsorted",
    "flags-unsorted",
    "snapshots-unsorted",
}
_AMBIGUOUS = {"ref-duplicate", "snapshot-duplicate", "parent-dangling", "parent-cycle"}


def plan_repo_info(
    store: ObjectStore, listing: Listing, found: Blob | None, kinds: set[str]
) -> list[RepairStep]:
    """`found` is the repo info, None if it is missing; `kinds` are those of its problems."""
    version = None if found is None else found.version
    if kinds & _LOST:
        return _restore_backup(store, listing, version, kinds & _LOST)
    if found is None or kinds & _AMBIGUOUS or not kinds & {*_SHUFFLED, "config-invalid"}:
        return []
    solved = kinds & _SHUFFLED
    data, text = bytes(found.data), "written again, in order"
    if "config-invalid" in kinds:
        edited = _with_old_config(store, listing, data)
        if edited is not None:
            data, solved = edited, {*solved, "config-invalid"}
            text = "written again, with the configuration of the newest backup"
    if not solved:
        return []
    try:
        info = decode_repo_info(data)
    except IcechunkError:
        return []
    data = encode_repo_info(replace(info, spec_version=2))
    return [RepairStep(REPO_INFO, tuple(sorted(solved)), text, data, version)]


def _restore_backup(
    store: ObjectStore, listing: Listing, version: str | None, kinds: set[str]
) -> list[RepairStep]:
    best = _newest_state(store, listing)
    if best is None:
        return []
    key, data, info = best
    at = to_datetime(UpdateLog.of(info.updates).newest_us).isoformat(timespec="seconds")
    known = {str(info.snapshots.id(row)) for row in range(len(info.snapshots))}
    newer = [name for name in listing.names(SNAPSHOTS) if name not in known]
    text = f"restored from {key}, the state of {at}: what was done last is lost"
    if newer:
        listed = ", ".join(_describe_snapshot(store, name) for name in newer[:5])
        more = f" and {len(newer) - 5} more" if len(newer) > 5 else ""
        text += f"; {len(newer)} snapshots are not in it: {listed}{more}"
    return [RepairStep(REPO_INFO, tuple(sorted(kinds)), text, data, version)]


def _describe_snapshot(store: ObjectStore, name: str) -> str:
    try:
        head = decode_snapshot_head(store.get(SNAPSHOTS + name).data)
    except IcechunkError:
        return name
    return f"{name} ({head.message!r})"


def _newest_state(store: ObjectStore, listing: Listing) -> tuple[str, bytes, RepoInfo] | None:
    """The readable backup whose last update is the latest."""
    best: tuple[str, bytes, RepoInfo] | None = None
    for key in backups(listing)[:_MOST_BACKUPS]:
        try:
            data = bytes(store.get(key).data)
            info = decode_repo_info(data)
        except IcechunkError:
            continue
        if best is None or _time(info) > _time(best[2]):
            best = key, data, info
    return best


def _time(info: RepoInfo) -> int:
    return UpdateLog.of(info.updates).newest_us


def _with_old_config(store: ObjectStore, listing: Listing, data: bytes) -> bytes | None:
    """The repo info with the configuration of the newest backup.

    None if the last update may have changed it: then it is unknown what it was.
    """
    opened = open_file(REPO_INFO, data, FileType.REPO_INFO, [])
    before = _newest_state(store, listing)
    if opened is None or before is None:
        return None
    last = opened.root.tables("latest_updates").rows.union("update_type").types[:1].tolist()
    if last == [number_of(ConfigChanged())]:
        return None
    try:
        if before[2].config is not None:
            decode_config(before[2].config)
    except IcechunkError:
        return None
    config = None if before[2].config is None else encode_flexbuffer(before[2].config)
    root = opened.root.replace(config=StringColumn.from_list([config]))
    return encode_envelope(encode_parts(root, identifier=IDENTIFIER), FileType.REPO_INFO)


def plan_config_yaml(
    store: ObjectStore, listing: Listing, old: Blob | None, kinds: set[str]
) -> list[RepairStep]:
    """Plans to restore the configuration of version 1 that was there before `old`."""
    if "config-invalid" not in kinds or old is None:
        return []
    names = [name for name in listing.overwritten if name.startswith(f"{CONFIG_YAML}.")]
    for name in sorted(names):
        try:
            data = bytes(store.get(OVERWRITTEN + name).data)
            found = decode_config_yaml(data)
            if found is not None:
                decode_config(found)
        except IcechunkError:
            continue
        text = f"restored from {OVERWRITTEN}{name}, the configuration before this one"
        return [RepairStep(CONFIG_YAML, ("config-invalid",), text, data, old.version)]
    return []
