"""References to purged things that remain, or may: for the person responsible for the purge."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from frazil.engine.files.files import Files
from frazil.engine.files.object_keys import CONFIG_YAML, OVERWRITTEN, REPO_INFO
from frazil.flatbuf.flexbuffers import Json
from frazil.format.repo_info import RepoInfo
from frazil.format.snapshot import Snapshot
from frazil.ids import SnapshotId

SHOWN = 20  # of things there may be thousands of


@dataclass(frozen=True, slots=True)
class Remaining:
    """`kind` is one of:

    message, metadata, attributes    text that mentions it: of a commit, the repository, a node
    config                           rules of the configuration that mention it
    tag                              a tag of a snapshot that is no longer what it was
    moved-node                       a node that is at another path in other snapshots
    shared-chunks                    chunk objects that other arrays use too, so that they stay
    virtual-file                     files outside the repository that virtual chunks were in
    backup                           files that were put aside, and are not looked into
    elsewhere                        copies that cannot be inspected from here
    """

    kind: str
    place: str
    text: str


COPIES = Remaining(
    "elsewhere",
    "copies",
    "clones, bundles, forks, caches of running programs and of proxies, replicas, and earlier"
    " versions that a bucket keeps of its objects are not known here",
)


def mentions_by_snapshot(snapshot: Snapshot, texts: Sequence[str]) -> Iterator[Remaining]:
    """Message and metadata of a commit that contain the texts."""
    if _in(snapshot.message, texts):
        yield Remaining("message", str(snapshot.id), snapshot.message)
    if _in(_as_text(snapshot.metadata), texts):
        yield Remaining("metadata", str(snapshot.id), "of the commit")


def mentions_by_repository(info: RepoInfo, texts: Sequence[str]) -> Iterator[Remaining]:
    if _in(_as_text(info.metadata), texts):
        yield Remaining("metadata", "repo", "of the repository")
    if info.config is not None and _in(_as_text(info.config), texts):
        yield Remaining("config", "repo", "rules of the configuration name it")


def mentions_by_nodes(snapshot: Snapshot, texts: Sequence[str]) -> set[str]:
    """Paths of nodes whose zarr.json has one of the texts in it."""
    wanted = [text.encode() for text in texts]
    user_data = snapshot.nodes.table.string("user_data").to_list()
    found = (
        row
        for row, data in enumerate(user_data)
        if data is not None and any(text in data for text in wanted)
    )
    return {snapshot.nodes.path_text(row) for row in found}


def tags_at(info: RepoInfo, snapshots: set[SnapshotId]) -> Iterator[Remaining]:
    for name, row in sorted(info.tags.items()):
        if info.snapshots.id(row) in snapshots:
            yield Remaining("tag", name, "is at a snapshot that is not what it was when tagged")


def put_aside(files: Files) -> Iterator[Remaining]:
    """Copies of earlier states, except of the entry point and its configuration."""
    known = tuple(f"{OVERWRITTEN}{name}." for name in (REPO_INFO, CONFIG_YAML))
    for info in files.store.list(OVERWRITTEN):
        if not info.key.startswith(known):
            yield Remaining("backup", info.key, "was put aside, and is not looked into")


def _in(text: str, wanted: Sequence[str]) -> bool:
    return any(each in text for each in wanted)


def _as_text(value: Json | Mapping[str, Json]) -> str:
    return json.dumps(value, ensure_ascii=False)
