"""Ingests from the shell: where the work runs, containers of virtual chunks, results as text."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from frazil.cli.failure import Interrupted
from frazil.cli.options import count_of
from frazil.cli.output import print_json, result_as_json
from frazil.describe.units import format_size
from frazil.engine.repository import Repository
from frazil.flatbuf.strings import Strings
from frazil.format.storage_config import ObjectStoreConfig, S3Options, VirtualChunkContainer
from frazil.ids import SnapshotId
from frazil.references.plan import locate
from frazil.spark.ingestion.ingest import IngestResult
from frazil.spark.sources import Source
from frazil.spark.sources.source_files import file_mark

# More than this is for Spark: it takes longer than a JVM needs to start.
LOCAL_BYTES = 256 << 20
LOCAL_SOURCES = 200
REMOTE_SOURCES = 8  # each takes requests, one after the other


def is_small(sources: Sequence[Source], *, virtual: bool) -> bool:
    """True if this process ingests the sources before Spark would have started."""
    remote = sum(source.remote is not None for source in sources)
    if len(sources) > LOCAL_SOURCES or remote > REMOTE_SOURCES:
        return False
    if virtual:  # reads headers only
        return True
    total = 0
    for source in sources:
        if source.format.is_folder and source.remote is not None:
            return False  # of unknown size
        total += _size(source)
        if total > LOCAL_BYTES:
            return False
    return True


def _size(source: Source) -> int:
    if not source.format.is_folder:
        return file_mark(source).size_bytes
    walk = os.walk(source.path)
    return sum(Path(folder, name).stat().st_size for folder, _, names in walk for name in names)


# Virtual chunk containers.


def with_containers(
    repository: Repository, sources: Sequence[Source], storage: Mapping[str, object]
) -> tuple[Repository, list[str]]:
    """The repository with containers for the sources, which are stored, and the prefixes added."""
    found = repository.virtual.all_containers()
    folders = {locate(_folder(source), root=None).rstrip("/") + "/" for source in sources}
    missing = [each for each in sorted(folders) if not found.covered(Strings.from_list([each]))[0]]
    config, added = repository.config, list[str]()
    for prefix in missing:
        store = _store_config(prefix, storage)
        if store is not None and not prefix.startswith(tuple(added)):
            config.set_virtual_chunk_container(VirtualChunkContainer(prefix, store))
            added.append(prefix)
    if added:
        repository = repository.reopened(config)
        repository.save_config()
    return repository, added


def _folder(source: Source) -> str:
    return source.path if source.format.is_folder else source.path.rpartition("/")[0]


def _store_config(prefix: str, storage: Mapping[str, object]) -> ObjectStoreConfig | None:
    """Store from which readers get the prefix; None if that needs more than options."""
    scheme = prefix.partition("://")[0]
    if scheme == "file":
        return ObjectStoreConfig.LocalFileSystem(prefix.removeprefix("file://"))
    if scheme == "s3":
        text = {name: str(value) for name, value in storage.items()}
        options = S3Options(
            region=text.get("region"),
            endpoint_url=text.get("endpoint_url"),
            allow_http=text.get("allow_http", "").lower() == "true",
            anonymous=text.get("anonymous", "").lower() == "true",
            force_path_style=text.get("force_path_style", "").lower() == "true",
        )
        alternative = ObjectStoreConfig.S3Compatible if options.endpoint_url else None
        return (alternative or ObjectStoreConfig.S3)(options)
    if scheme == "gs":
        return ObjectStoreConfig.Gcs()
    return ObjectStoreConfig.Http() if scheme in {"http", "https"} else None


def authorization_of(prefixes: Iterable[str]) -> str:
    """Options with which commands may read virtual chunks below the prefixes."""
    words = {"file": "local", "http": "http", "https": "http"}
    return " ".join(
        f"--authorize {prefix}={words.get(prefix.partition(':')[0], 'environment')}"
        for prefix in prefixes
    )


# What came of it.


def print_ingest(
    result: IngestResult, branch: str, prefixes: Sequence[str], *, as_json: bool
) -> None:
    """`prefixes` are those of the containers that were added."""
    if as_json:
        skipped = [
            {"file": one.path, "kind": one.kind, "reason": one.reason} for one in result.skipped
        ]
        added = {"skipped": skipped, "containers_added": list(prefixes)}
        print_json(result_as_json(result) | added)
        return
    for one in result.skipped:
        print(f"skipped {one.reason}")
    if not result.committed:
        print(f"nothing to do: {result.snapshot_id} was made with this idempotency key")
        return
    more = ""
    if result.virtual_chunks:
        more += f", {count_of(result.virtual_chunks, 'virtual chunk')}"
    if result.reused_chunks:
        more += f", {count_of(result.reused_chunks, 'chunk')} from an earlier run"
    print(
        f"committed {result.snapshot_id} to {branch}: {count_of(result.files, 'file')},"
        f" {count_of(result.chunks, 'chunk')}, {format_size(result.bytes)}{more}"
        f" in {result.seconds:.1f} s"
    )
    if prefixes:
        print(f"added a virtual chunk container for {', '.join(prefixes)}")
        print(f"to read these chunks: {authorization_of(prefixes)}")


def interrupted(
    repository: Repository, branch: str, before: SnapshotId, *, resume: bool
) -> Interrupted:
    """Says what an ingest had done when the user pressed control-C."""
    tip = repository.lookup_branch(branch)
    if tip != before:
        return Interrupted(
            f"interrupted: {branch} has moved to {tip}",
            f"`frazil show REPO {branch}` shows whether that is this ingest's commit",
        )
    again = "run the same command again; chunks that were written are not written again"
    return Interrupted(
        f"interrupted: nothing was committed, {branch} is as it was",
        again if resume else "run the same command again",
    )
