"""The newest version of some refs in a new repository that refers to the chunks of the old one.

Chunks become virtual: `<source>/chunks/<id>`, in a container that the new repository has in its
configuration. They are found for as long as the source keeps them. Metadata alone is written, by
the driver, column by column.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from frazil.assets.layout import CHUNKS, chunk_key
from frazil.errors import InvalidInputError, RefNotFoundError
from frazil.format.chunk_refs import ChunkRefs
from frazil.format.config import RepositoryConfig
from frazil.format.payloads import RefKind
from frazil.format.storage_config import LocalStoreConfig, VirtualChunkContainer
from frazil.ids import INITIAL_SNAPSHOT, ChunkId, SnapshotId
from frazil.objectstore.local import LocalStore
from frazil.objectstore.protocol import ObjectStore
from frazil.repo.repository import Repository
from frazil.repo.session import Session
from frazil.repo.version import Branch, Tag
from frazil.spark.jobs.commits import CommitNote, commit_once

MAIN = "main"


def container_of(store: ObjectStore) -> VirtualChunkContainer:
    """Where the chunks of a repository in a folder are."""
    if not isinstance(store, LocalStore):
        raise InvalidInputError(
            "a shallow clone of a repository in a bucket needs a `container`, which says how the"
            " chunks there are reached"
        )
    return VirtualChunkContainer(f"file://{store.root}/{CHUNKS}", LocalStoreConfig(store.root))


def create_shallow(
    source: Repository, target: ObjectStore, container: VirtualChunkContainer
) -> Repository:
    """Empty, with the containers of the source and one for the source itself."""
    config = RepositoryConfig(
        virtual_chunk_containers=dict(source.config.virtual_chunk_containers or {})
    )
    config.set_virtual_chunk_container(container)
    return Repository.create(target, config)


def copy_refs(
    source: Repository, target: Repository, refs: Sequence[str], prefix: str, note: CommitNote
) -> SnapshotId:
    """One commit for each ref, on a branch of its name; the snapshot of the last."""
    made = INITIAL_SNAPSHOT
    for name in refs:
        made = _copy_ref(source, target, name, prefix, note)
    return made


def _copy_ref(
    source: Repository, target: Repository, name: str, prefix: str, note: CommitNote
) -> SnapshotId:
    is_branch = name in source.branches()
    if not is_branch and name not in source.tags():
        raise RefNotFoundError(f"no branch or tag {name!r}")
    base = source.readonly_session(Branch(name) if is_branch else Tag(name))
    branch = name if is_branch else f"frazil-staging-tag-{name}"
    if branch != MAIN:
        target.create_branch(branch, INITIAL_SNAPSHOT)
    session = target.writable_session(branch)
    for node in base.nodes():
        session.set_node(node.path, node.user_data)
        if node.array is not None:
            for refs in base.chunk_refs(node.path):
                for part in _elsewhere(refs, prefix):
                    session.set_chunk_refs(node.path, part)
    made = SnapshotId.parse(_commit(target, session, note, base, branch))
    if not is_branch:
        target.create_tag(name, made)
        target.delete_branch(branch)
    return made


def _commit(
    target: Repository, session: Session, note: CommitNote, base: Session, branch: str
) -> str:
    message = f"Shallow clone of {base.snapshot_id}"
    return commit_once(
        target, session, note, message, branch=branch, allow_empty=True
    ).snapshot_id  # fmt: skip


def _elsewhere(refs: ChunkRefs, prefix: str) -> Iterator[ChunkRefs]:
    """The same chunks, seen from outside; inline and virtual ones are as they were."""
    native = refs.kind == RefKind.NATIVE
    yield refs.take(np.flatnonzero(~native))
    ids, codes = np.unique(refs.chunk_id[native], axis=0, return_inverse=True)
    names = [chunk_key(ChunkId(raw.tobytes())).removeprefix(CHUNKS) for raw in ids]
    locations = [prefix + names[code] for code in codes.reshape(-1)]
    yield ChunkRefs.virtual(refs.index[native], locations, refs.offset[native], refs.length[native])
