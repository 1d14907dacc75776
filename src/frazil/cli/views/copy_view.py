"""Results of copies and migrations, for people and for programs."""

from dataclasses import asdict

from frazil.api.migrating import ConfirmedMigration, MigrationSummary
from frazil.api.moving import CopySummary
from frazil.cli.output import print_json


def print_copy(done: CopySummary, target: str, *, verb: str, as_json: bool) -> None:
    """`verb` in the past tense."""
    if as_json:
        print_json(asdict(done))
        return
    if done.dry_run:
        state = "brought up to date" if done.exists else "made"
        print(
            f"{target} would be {state}: {', '.join((*done.branches, *done.tags))},"
            f" {done.snapshots} snapshots; {done.copied} of {done.objects} objects to copy,"
            f" {megabytes(done.bytes)}"
        )
        return
    print(
        f"{verb} {done.snapshots} snapshots to {target}: {done.copied} of {done.objects} objects"
        f" copied, {megabytes(done.bytes)} in {done.seconds:.1f} s"
    )


def print_migration(done: MigrationSummary, target: str, *, as_json: bool) -> None:
    if as_json:
        print_json(asdict(done))
        return
    doing = "would be migrated" if done.dry_run else "migrated"
    print(
        f"{doing} from {done.generation} to version {done.spec_version}: {done.snapshots}"
        f" snapshots, {done.manifests} manifests rewritten, {done.copied} objects copied,"
        f" {megabytes(done.bytes)}"
    )
    if done.snapshot_ids:
        print(f"{len(done.snapshot_ids)} snapshots get new ids: --json lists them")
    if done.in_place and not done.dry_run:
        print(f"the old files are kept: `frazil migrate {target} --confirm` removes them")


def print_confirmation(done: ConfirmedMigration, *, as_json: bool) -> None:
    if as_json:
        print_json(asdict(done))
    elif not done.files:
        print("nothing to confirm")
    else:
        doing = "would be removed" if done.dry_run else "removed"
        print(f"{doing}: {done.files} files of {done.generation}, {megabytes(done.bytes)}")


def megabytes(count: int) -> str:
    return f"{count / 1e6:.1f} MB"
