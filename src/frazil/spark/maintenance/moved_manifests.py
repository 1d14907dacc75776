"""Manifests written by executors, with references to where chunks are now."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from frazil.format.snapshot import ManifestFile
from frazil.ids import ManifestId
from frazil.maintenance.chunk_parts import Relocation
from frazil.maintenance.relocate import NewManifests
from frazil.repo.repository import Repository
from frazil.spark.maintenance.files import ExecutorFiles
from frazil.spark.runtime.jobs import TASKS_PER_CORE, collect, map_tasks, parallelism

MANIFESTS = pa.schema(
    [
        ("old", pa.binary()),
        ("new", pa.binary()),
        ("bytes", pa.int64()),
        ("references", pa.int64()),
    ]
)


def write_moved(
    spark: SparkSession,
    repository: Repository,
    manifests: tuple[ManifestId, ...],
    moved: Relocation,
) -> NewManifests:
    """By old manifest the one in its place."""
    write = WriteManifests(ExecutorFiles.of(repository), manifests, moved)
    partitions = parallelism(spark) * TASKS_PER_CORE
    table = collect(map_tasks(spark, len(manifests), partitions, write, MANIFESTS))
    return {
        ManifestId(row["old"]): ManifestFile(
            ManifestId(row["new"]), row["bytes"], row["references"]
        )
        for row in table.to_pylist()
    }


@dataclass(frozen=True, slots=True)
class WriteManifests:
    """References to where chunks are now, in the place of manifests that refer to the old ones."""

    files: ExecutorFiles
    manifests: tuple[ManifestId, ...]
    moved: Relocation

    def __call__(self, tasks: range) -> Iterator[pa.RecordBatch]:
        files = self.files.open()
        rows: list[dict[str, Any]] = []
        for task in tasks:
            old = self.manifests[task]
            new = self.moved.apply_to(files.fetch_manifest(old))
            if new is not None:
                file = files.put_manifest(new)
                known = {"bytes": file.size_bytes, "references": file.num_refs}
                rows.append({"old": old.raw, "new": file.id.raw, **known})
        files.store.sync()
        yield pa.RecordBatch.from_pylist(rows, schema=MANIFESTS)
