"""Histories for expiring and collecting, made once by the reference and then copied."""

import shutil
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import icechunk
import numpy as np
import zarr
from hypothesis import strategies as st
from zarr.abc.store import Store

import frazil
from frazil.format.projections import decode_chunk_ids, decode_manifest_files
from frazil.ids import SnapshotId, format_ids

INITIAL = "1CECHNKREP0F1RSTCMT0"
FOLDERS = ("snapshots", "transactions", "manifests", "chunks")

# What is done, and a number that chooses among what there is to do it to.
ACTIONS = ["commit"] * 6 + ["flush", "branch", "branch", "tag", "reset", "delete branch"]
steps = st.lists(
    st.tuples(st.sampled_from(ACTIONS), st.integers(0, 1 << 16)), min_size=3, max_size=10
)


@dataclass(slots=True)
class Made:
    """A repository in a directory, and moments between its steps."""

    path: Path
    names: dict[str, str] = field(default_factory=lambda: {INITIAL: "root"})
    moments: list[datetime] = field(default_factory=list)


def make(path: Path, version: int, done: list[tuple[str, int]]) -> Made:
    config = icechunk.RepositoryConfig(inline_chunk_threshold_bytes=0)
    repository = icechunk.Repository.create(
        icechunk.local_filesystem_storage(str(path)), config, spec_version=version
    )
    made = Made(path)
    for number, (action, choice) in enumerate(done):
        branches = sorted(repository.list_branches())
        branch, target = (
            branches[choice % len(branches)],
            list(made.names)[choice % len(made.names)],
        )
        match action:
            case "commit" | "flush":
                session = repository.writable_session(branch)
                _edit(session.store, choice)
                message = f"{action} {number}"
                written = (
                    session.flush(message)
                    if action == "flush"
                    else session.commit(message, allow_empty=True)
                )
                made.names[written] = message
            case "branch":
                repository.create_branch(f"b{number}", target)
            case "tag":
                repository.create_tag(f"t{number}", target)
            case "reset":
                repository.reset_branch(branch, target)
            case "delete branch" if branch != "main":
                repository.delete_branch(branch)
            case _:
                pass
        time.sleep(0.002)
        made.moments.append(datetime.now(UTC))
        time.sleep(0.002)
    return made


def _edit(store: Store, choice: int) -> None:
    root = zarr.open_group(store, mode="a")
    name = f"a{choice % 3}"
    if name not in root:
        root.create_array(name, shape=(6,), chunks=(1,), dtype="i4")
    array = zarr.open_array(store, path=name)
    for at in range(choice % 4 + 1):
        array[(choice >> at) % 6] = choice % 97 + 1


def copied(made: Made, name: str) -> Path:
    """With the times that the files have."""
    target = made.path.with_name(name)
    shutil.copytree(made.path, target)
    return target


def files(path: Path) -> set[str]:
    return {f"{folder}/{each.name}" for folder in FOLDERS for each in (path / folder).glob("*")}


def state(path: Path, names: dict[str, str]) -> tuple[object, ...]:
    """Snapshots with their parents and the logs they took over, and where refs point."""
    info = frazil.Repository.open(frazil.local_filesystem_storage(str(path))).engine.repo_info()
    listed = info.snapshots
    count = len(listed)

    def name(row: int) -> str | None:
        return names[str(listed.id(row))] if row >= 0 else None

    return (
        {
            name(row): (
                name(listed.parent(row)),
                [names[str(SnapshotId(raw))] for raw in listed.pruned_logs(row)],
            )
            for row in range(count)
        },
        {ref: name(row) for ref, row in info.branches.items()},
        {ref: name(row) for ref, row in info.tags.items()},
        info.deleted_tags,
    )


def led_to(path: Path, snapshots: set[str]) -> set[str]:
    """Logs of these snapshots, and manifests and chunks that their files lead to."""
    found = {f"transactions/{snapshot}" for snapshot in snapshots}
    for snapshot in snapshots:
        listed = decode_manifest_files([(path / "snapshots" / snapshot).read_bytes()])[0]
        for manifest in format_ids(listed.ids):
            ids = decode_chunk_ids([(path / "manifests" / manifest).read_bytes()])
            found |= {f"manifests/{manifest}", *(f"chunks/{each}" for each in format_ids(ids))}
    return found


def young_snapshots(path: Path, cutoff: datetime) -> set[str]:
    limit = cutoff.timestamp()
    return {each.name for each in (path / "snapshots").glob("*") if each.stat().st_mtime >= limit}


def contents(repository: frazil.Repository | icechunk.Repository) -> dict[str, object]:
    """Everything that can be read, by branch and array."""
    found: dict[str, object] = {}
    for branch in sorted(repository.list_branches()):
        if repository.lookup_branch(branch) == INITIAL:
            continue
        store = repository.readonly_session(branch).store
        for name, array in zarr.open_group(store, mode="r").arrays():
            found[f"{branch}/{name}"] = np.asarray(array[:]).tolist()
    return found
