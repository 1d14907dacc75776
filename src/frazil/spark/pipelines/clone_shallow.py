"""The newest version of some refs in a new repository that refers to the chunks of the old one.

    driver      nodes of each version, as pending changes of the clone
    executors   manifests of the source -> manifests of the clone, cell by cell   (clone_manifests)
    driver      manifests attached to the arrays -> a snapshot each -> branches and tags, main last

Chunks become virtual: `<source>/chunks/<id>`, in a container that the new repository has in its
configuration. They are found for as long as the source keeps them. No reference comes to the
driver.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from pyspark.sql import SparkSession

from frazil.format.config import RepositoryConfig
from frazil.format.storage_config import (
    VirtualChunkContainer,
)
from frazil.ids import INITIAL_SNAPSHOT, SnapshotId
from frazil.objectstore.protocol import ObjectStore
from frazil.repo.refs import MAIN
from frazil.repo.repository import Repository
from frazil.repo.session import Session
from frazil.repo.version import Exactly
from frazil.spark.ingestion.virtual import attached_manifest
from frazil.spark.ingestion.virtual_jobs import CHUNKS_LOGGED_HERE, write_log
from frazil.spark.pipelines.clone_manifests import (
    MANIFESTS,
    ArrayCells,
    WriteManifests,
    cells_of,
)
from frazil.spark.runtime.commits import METADATA_KEY, CommitNote
from frazil.spark.runtime.jobs import TASKS_PER_CORE, collect, map_tasks, parallelism


@dataclass(frozen=True, slots=True)
class ShallowCounts:
    snapshots: int
    manifests: int
    size_bytes: int  # of them


@dataclass(frozen=True, slots=True)
class ShallowClone:
    spark: SparkSession
    source: Repository
    target: ObjectStore
    container: VirtualChunkContainer
    note: CommitNote

    def make(
        self, branches: Mapping[str, SnapshotId], tags: Mapping[str, SnapshotId]
    ) -> ShallowCounts:
        """Of refs at the same snapshot it is made once."""
        clone = self._create()
        versions = list(dict.fromkeys([*branches.values(), *tags.values()]))
        bases = [self.source.readonly_session(Exactly(version)) for version in versions]
        sessions = [_with_nodes(base, clone.writable_session(MAIN)) for base in bases]
        arrays = [
            one
            for k, (base, session) in enumerate(zip(bases, sessions, strict=True))
            for one in cells_of(k, base, session)
        ]
        written = self._write(bases, sessions, arrays)
        self._attach(sessions, arrays, written)
        made = {
            version: session.flush(
                f"Shallow clone of {version}", {METADATA_KEY: self.note.to_json()}
            )
            for version, session in zip(versions, sessions, strict=True)
        }
        _publish(
            clone,
            {name: made[tip] for name, tip in branches.items()},
            {name: made[tip] for name, tip in tags.items()},
        )
        sizes = [row["size"] for row in written.to_pylist() if row["id"]]
        return ShallowCounts(len(versions), len(sizes), sum(sizes))

    def _create(self) -> Repository:
        """Empty, with the containers of the source, one for the source, and manifests cut as there.

        A clone that was interrupted before it had anything to show is taken up.
        """
        known = self.source.config
        config = RepositoryConfig(
            virtual_chunk_containers=dict(known.virtual_chunk_containers or {}),
            manifest=known.manifest,
        )
        config.set_virtual_chunk_container(self.container)
        if Repository.exists(self.target):
            there = Repository.open(self.target, config)
            if there.branches() == {MAIN: INITIAL_SNAPSHOT} and not there.tags():
                there.save_config()
                return there
        return Repository.create(self.target, config, spec_version=self.source.spec_version)

    def _write(
        self, bases: list[Session], sessions: list[Session], arrays: list[ArrayCells]
    ) -> pa.Table:
        tasks = sum(len(one.cells) for one in arrays)
        if not tasks:
            return MANIFESTS.empty_table()
        files = sessions[0].files
        clone = Session(files, sessions[0].clock, sessions[0].base)  # read-only, so picklable
        job = WriteManifests(tuple(bases), clone, tuple(arrays), self.container.url_prefix)
        partitions = parallelism(self.spark) * TASKS_PER_CORE
        return collect(map_tasks(self.spark, tasks, partitions, job, MANIFESTS))

    def _attach(self, sessions: list[Session], arrays: list[ArrayCells], written: pa.Table) -> None:
        rows = written.to_pylist()
        for number, one in enumerate(arrays):
            found = [attached_manifest(row) for row in rows if row["array"] == number]
            manifests = [each for each in found if each is not None]
            session = sessions[one.version]
            many = sum(each.changed.count for each in manifests) > CHUNKS_LOGGED_HERE
            clone = Session(session.files, session.clock, session.base)
            writer = partial(write_log, self.spark, clone) if many else None
            session.attach_manifests(one.source.path, manifests, log_writer=writer)


def _with_nodes(base: Session, session: Session) -> Session:
    for node in base.nodes():
        session.set_node(node.path, node.user_data)
    return session


def _publish(
    clone: Repository, branches: Mapping[str, SnapshotId], tags: Mapping[str, SnapshotId]
) -> None:
    for name, tip in tags.items():
        clone.create_tag(name, tip)
    for name, tip in branches.items():
        if name != MAIN:
            clone.create_branch(name, tip)
    clone.reset_branch(MAIN, branches[MAIN])
