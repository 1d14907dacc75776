"""Bundles: a repository in one file, for transport. See objectstore/archive.py.

A bundle is a repository like any other, which can be opened and copied from. One that was made
with a `basis` has only what is new since then, for a receiver that has the rest.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version

from frazil.clock import to_datetime
from frazil.engine.refs.refs import MAIN
from frazil.engine.repository import Repository
from frazil.errors import InvalidInputError, ObjectNotFoundError
from frazil.ids import SnapshotId
from frazil.maintenance.copying.clone import ClonePlan, CloneResult, clone, plan_clone
from frazil.maintenance.executor import Executor, Progress, ThreadExecutor, quiet_files
from frazil.objectstore.archive import ArchiveStore, ArchiveWriter
from frazil.objectstore.memory import MemoryStore
from frazil.objectstore.protocol import ObjectStore

type FilePath = str | os.PathLike[str]


def plan_export(
    repository: Repository,
    executor: Executor | None = None,
    *,
    refs: Sequence[str] | None = None,
    basis: Sequence[SnapshotId] = (),
) -> ClonePlan:
    """Raises RefNotFoundError, ObjectNotFoundError, InvalidInputError for an unknown basis."""
    plan = plan_clone(repository, MemoryStore(), executor, refs=refs, basis=basis)
    for one in basis:
        if plan.origin.info.snapshots.find(one) < 0:
            raise InvalidInputError(f"snapshot {one} is not part of what is exported")
    return plan


def export_bundle(
    plan: ClonePlan,
    path: FilePath,
    executor: Executor | None = None,
    *,
    basis: Sequence[SnapshotId] = (),
) -> CloneResult:
    """Writes the file, in place of one that is there; until it is complete there is none."""
    about = {
        "format": "frazil bundle",
        "version": 1,
        "written_by": f"frazil {version('frazil')}",
        "written_at": to_datetime(plan.repository.clock()).isoformat(),
        "spec_version": plan.repository.spec_version,
        "branches": {name: str(tip) for name, tip in _tips(plan, tags=False)},
        "tags": {name: str(tip) for name, tip in _tips(plan, tags=True)},
        "basis": [str(one) for one in basis],
    }
    with ArchiveWriter(path, about) as archive:
        return clone(replace(plan, target=archive), executor)


def plan_import(
    path: FilePath, target: ObjectStore, *, progress: Progress | None = None
) -> ClonePlan:
    """Plans a copy of a bundle, to a new repository or into one that is there.

    Branches that are there move forward, new ones and tags are added, others stay.
    Raises InvalidInputError if it builds on snapshots that the target does not have.
    """
    archive = ArchiveStore(path)
    repository = Repository.open(archive)
    branches = archive.about().get("branches")
    invents_main = isinstance(branches, dict) and MAIN not in branches
    try:
        executor = ThreadExecutor(quiet_files(repository), progress)
        return plan_clone(repository, target, executor, joining=True, invents_main=invents_main)
    except ObjectNotFoundError as error:
        basis = archive.about().get("basis") or []
        if not basis:
            raise
        raise InvalidInputError(
            f"the bundle goes on from {', '.join(basis)}, which is not at the target:"
            f" {error.key} is in neither"
        ) from error


def _tips(plan: ClonePlan, *, tags: bool) -> list[tuple[str, SnapshotId]]:
    info = plan.origin.entry.joined or plan.origin.info  # without a main that was not chosen
    refs = info.tags if tags else info.branches
    return [(name, info.snapshots.id(row)) for name, row in sorted(refs.items())]
