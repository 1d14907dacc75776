"""Copies of some groups and arrays, and copies that refer to the chunks of their source."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from frazil.errors import NodeNotFoundError
from frazil.format.chunk_refs import ChunkRefs, RefKind
from frazil.format.config import RepositoryConfig
from frazil.format.config_codec import encode_config
from frazil.format.repo_info import encode_repo_info
from frazil.format.storage_config import VirtualChunkContainer
from frazil.ids import INITIAL_SNAPSHOT, format_ids
from frazil.maintenance.copying.containers import container_of
from frazil.maintenance.copying.derived import DerivedPlan, plan_derived
from frazil.maintenance.copying.names import DerivedNames
from frazil.maintenance.copying.origin import RepoFile, require_current
from frazil.maintenance.copying.refs import choose_refs, chooses_main
from frazil.maintenance.copying.rewriting import Rules, below
from frazil.maintenance.copying.target import require_elsewhere, require_no_strangers
from frazil.maintenance.migrate.listing import in_order
from frazil.maintenance.progress import Progress
from frazil.objectstore.protocol import ObjectStore
from frazil.paths import ROOT, NodePath
from frazil.repo.repository import Repository


def plan_partial(
    repository: Repository,
    target: ObjectStore,
    *,
    paths: Sequence[NodePath] = (),
    shallow: bool = False,
    container: VirtualChunkContainer | None = None,
    refs: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> DerivedPlan:
    """Of the nodes at and below `paths`, with the groups above them; of all if none are given.

    If `shallow`, chunks become virtual: `<source>/chunks/<id>`, in a container that the copy has in
    its configuration; they are found for as long as the source keeps them. `container` tells how
    chunks in a bucket are reached. The copy is of version 2, and snapshots have ids of its own.
    Raises NodeNotFoundError, RefNotFoundError, ConflictError.
    """
    info = in_order(repository.repo_info())
    every = [*(f"branch:{name}" for name in info.branches), *(f"tag:{name}" for name in info.tags)]
    info = choose_refs(info, every if refs is None else refs, clock=repository.clock)
    place = (container or container_of(repository.store)) if shallow else None
    chosen = sorted({path.text for path in paths} or {ROOT.text})
    purpose = f"copy of {chosen}" + (
        "" if place is None else f" by reference to {place.url_prefix}"
    )
    rules = Rules(
        names=DerivedNames(purpose, first=INITIAL_SNAPSHOT, root=INITIAL_SNAPSHOT),
        wants=below(paths) if paths else None,
        refs=elsewhere(place.url_prefix) if place is not None else lambda refs: refs,
    )
    require_current(repository.generation)
    require_elsewhere(repository.store, target)
    config = _config(repository, place)
    stored = None if config is None else encode_config(config)
    plan = plan_derived(
        repository,
        target,
        info,
        rules,
        finished=lambda made: replace(made, spec_version=2, config=stored),
        entry_of=lambda made: RepoFile(
            made, encode_repo_info(made), invents_main=not chooses_main(refs)
        ),
        progress=progress,
    )
    _require_nodes(repository, plan, paths)
    if not plan.found:
        require_no_strangers(target)
    return plan


def elsewhere(prefix: str) -> Callable[[ChunkRefs], ChunkRefs]:
    """The same chunks, seen from outside; inline and virtual ones are as they were."""

    def change(refs: ChunkRefs) -> ChunkRefs:
        native = refs.kind == RefKind.NATIVE
        if not native.any():
            return refs
        ids, codes = np.unique(
            np.ascontiguousarray(refs.chunk_id[native]), axis=0, return_inverse=True
        )
        names = [prefix + text for text in format_ids(ids)]
        virtual = ChunkRefs.virtual(
            refs.index[native],
            [names[code] for code in codes.reshape(-1).tolist()],
            refs.offset[native],
            refs.length[native],
        )
        return ChunkRefs.concat([refs.take(np.flatnonzero(~native)), virtual])

    return change


def _config(repository: Repository, place: VirtualChunkContainer | None) -> RepositoryConfig | None:
    """What the source has saved, with the container of its chunks."""
    stored = Repository.fetch_config(repository.store)
    if place is None:
        return stored
    config = stored or RepositoryConfig()
    config.set_virtual_chunk_container(place)
    return config


def _require_nodes(repository: Repository, plan: DerivedPlan, paths: Sequence[NodePath]) -> None:
    """Each path must be that of a node in some snapshot."""
    missing = {path.raw for path in paths if path != ROOT}
    for row in range(len(plan.info.snapshots)):
        if not missing:
            return
        nodes = repository.files.fetch_snapshot(plan.info.snapshots.id(row)).nodes
        missing -= set(nodes.paths)
    if missing:
        names = ", ".join(sorted(raw.decode() for raw in missing))
        raise NodeNotFoundError(f"no version has a node at {names}")
