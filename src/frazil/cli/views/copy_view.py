"""Results of copies and migrations, as text and as JSON."""

from collections.abc import Iterable

import numpy as np

from frazil.api.actions import ConfirmedMigration
from frazil.cli.options import count_of
from frazil.cli.output import print_json, result_as_json
from frazil.describe.units import format_size
from frazil.engine.session.session import Session
from frazil.maintenance.copying.clone import CloneResult
from frazil.maintenance.migrate.migration import MigrateResult
from frazil.paths import NodePath


def print_copy(done: CloneResult, target: str, *, verb: str, as_json: bool) -> None:
    """`verb` in the past tense."""
    if as_json:
        print_json(result_as_json(done))
        return
    if done.dry_run:
        state = "brought up to date" if done.exists else "made"
        print(
            f"{target} would be {state}: {', '.join((*done.branches, *done.tags))},"
            f" {count_of(done.snapshots, 'snapshot')}; {done.copied} of"
            f" {count_of(done.objects, 'object')} to copy,"
            f" {format_size(done.bytes)}"
        )
        return
    print(
        f"{verb} {count_of(done.snapshots, 'snapshot')} to {target}: {done.copied} of"
        f" {count_of(done.objects, 'object')} copied, {format_size(done.bytes)}"
        f" in {done.seconds:.1f} s"
    )


def print_migration(done: MigrateResult, target: str, *, as_json: bool) -> None:
    if as_json:
        print_json(result_as_json(done, migrated=not done.dry_run))
        return
    doing = "would be migrated" if done.dry_run else "migrated"
    print(
        f"{doing} from {done.generation} to version {done.spec_version}:"
        f" {count_of(done.snapshots, 'snapshot')},"
        f" {count_of(done.manifests, 'manifest')} rewritten,"
        f" {count_of(done.copied, 'object')} copied,"
        f" {format_size(done.bytes)}"
    )
    if done.snapshot_ids:
        print(f"{count_of(len(done.snapshot_ids), 'snapshot')} with new ids: --json lists them")
    if done.in_place and not done.dry_run:
        print(f"the old files are kept: `frazil migrate {target} --confirm` removes them")


def print_current(repo: str, version: int, *, as_json: bool) -> None:
    """Says that there is nothing to migrate."""
    if as_json:
        print_json({"migrated": False, "spec_version": version})
    else:
        print(f"nothing to do: {repo} is a version {version} repository already")


def print_confirmation(done: ConfirmedMigration, *, as_json: bool) -> None:
    if as_json:
        print_json(result_as_json(done))
    elif not done.files:
        print("nothing to confirm")
    else:
        doing = "would be removed" if done.dry_run else "removed"
        files = count_of(done.files, "file")
        print(f"{doing}: {files} of {done.generation}, {format_size(done.bytes)}")


# More than this is exported by Spark: it takes longer than a JVM needs to start.
LOCAL_BYTES = 256 << 20
LOCAL_CHUNKS = 20_000


def is_small(session: Session, arrays: Iterable[NodePath]) -> bool:
    """True if this process exports the arrays before Spark would have started."""
    total, chunks = 0, 0
    for path in arrays:
        for refs in session.chunk_refs(path):
            total += int(refs.length.sum(dtype=np.uint64))
            chunks += len(refs)
            if total > LOCAL_BYTES or chunks > LOCAL_CHUNKS:
                return False
    return True
