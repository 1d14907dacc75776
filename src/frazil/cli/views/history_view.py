"""One commit, in words and as JSON."""

import re
import sys
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import typer

from frazil.cli.options import count_of
from frazil.cli.output import Cell, format_time, print_json, print_table
from frazil.cli.views.diff_view import as_json, as_text, diff_as_json, diff_as_text
from frazil.cli.views.log_view import names_by_snapshot, record_as_json
from frazil.clock import to_datetime
from frazil.describe.units import format_size
from frazil.describe.version_diff import VersionDiff, compare_versions
from frazil.engine.history.history_editing import Edit, Edited
from frazil.engine.refs.ancestry import SnapshotRecord
from frazil.engine.refs.repo_settings import FLAGS, require_version_2
from frazil.engine.refs.version import Branch, Exactly
from frazil.engine.repository import Repository
from frazil.errors import Conflict, IcechunkError, RebaseFailedError, RefNotFoundError
from frazil.format.update_log import Availability, RepoStatus, Update
from frazil.ids import SnapshotId


def commit_as_json(repository: Repository, snapshot: SnapshotId) -> dict[str, Any]:
    record = repository.lookup_snapshot(snapshot)
    changes = _changes(repository, record)
    manifests = repository.manifest_files(snapshot)
    return {
        **record_as_json(
            record,
            names_by_snapshot(repository.branches()),
            names_by_snapshot(repository.tags()),
        ),
        "manifests": len(manifests),
        "manifest_bytes": sum(file.size_bytes for file in manifests),
        "references": sum(file.num_refs for file in manifests),
        "changes": None if changes is None else as_json(changes),
    }


def commit_as_text(repository: Repository, snapshot: SnapshotId) -> str:
    facts = commit_as_json(repository, snapshot)
    record = repository.lookup_snapshot(snapshot)
    names = [*facts["branches"], *facts["tags"]]
    lines = [
        f"snapshot  {facts['snapshot_id']}" + (f"  ({', '.join(names)})" if names else ""),
        f"parent    {facts['parent_id'] or 'none: the first one'}",
        f"written   {format_time(record.flushed_at_us)} UTC",
        f"holds     {facts['references']} chunk references",
        f"manifests {facts['manifests']} ({format_size(facts['manifest_bytes'])})",
    ]
    lines += [f"{name}: {value}" for name, value in record.metadata.items()]
    lines += ["", *(f"    {line}" for line in record.message.splitlines()), ""]
    changes = _changes(repository, record)
    if changes is not None:
        lines.append(as_text(changes) or "no changes")
    return "\n".join(lines).rstrip()


def _changes(repository: Repository, record: SnapshotRecord) -> VersionDiff | None:
    """None for the first snapshot, and where the transaction log is gone."""
    if record.parent_id is None:
        return None
    try:
        return compare_versions(repository, record.parent_id, record.id)
    except IcechunkError:
        return None


# An entry of the ops log, in words and as JSON.


def operation_name(update: Update) -> str:
    """`new commit` for NewCommit."""
    words: list[str] = re.findall(r"GC|[A-Z][a-z]*", type(update.kind).__name__)
    return " ".join(word if word.isupper() else word.lower() for word in words)


def operation_details(update: Update) -> str:
    facts = _facts(update)
    match facts:
        case {"status": RepoStatus(availability=availability, reason=reason)}:
            return f"{availability.label}{f': {reason}' if reason else ''}"
        case _:
            return " ".join(f"{name}={value}" for name, value in facts.items())


def _facts(update: Update) -> dict[str, object]:
    return {field: getattr(update.kind, field) for field in type(update.kind).__slots__}


def operation_as_json(update: Update) -> dict[str, object]:
    return {
        "operation": type(update.kind).__name__,
        "updated_at": to_datetime(update.updated_at_us).isoformat(),
        "backup_path": update.backup_path,
        **_facts_as_json(update),
    }


def _flag_name(number: object) -> str | None:
    return next((each.name for each in FLAGS if each.id == number), None)


def _facts_as_json(update: Update) -> dict[str, object]:
    """Facts by the names that all commands use."""
    facts = _facts(update)
    match facts:
        case {"status": RepoStatus() as status}:
            return {
                "availability": status.availability.label,
                "reason": status.reason,
                "set_at": to_datetime(status.set_at_us).isoformat(),
            }
        case {"id": flag, "new_value": enabled}:
            return {"flag": _flag_name(flag), "enabled": enabled}
    ref = "tag" if type(update.kind).__name__.startswith("Tag") else "branch"
    names = {"name": ref, "new": "snapshot_id", "previous": "previous_snapshot_id"}
    return {names.get(name, name): value for name, value in facts.items()}


# A repository at a glance, in words and as JSON.


def set_standing(repository: Repository, wanted: str, reason: str | None) -> None:
    require_version_2(repository.spec_version)
    availability = next(each for each in Availability if each.label == wanted)
    repository.set_status(RepoStatus(availability, repository.clock(), reason))


def standing_as_json(repository: Repository, location: str) -> dict[str, Any]:
    branches, tags = repository.branches(), repository.tags()
    facts: dict[str, Any] = {
        "location": location,
        "generation": str(repository.generation),
        "spec_version": repository.spec_version,
        "availability": "online",
        "reason": None,
        "set_at": None,
        "branches": sorted(branches),
        "tags": sorted(tags),
        "tip": _tip(repository),
    }
    if not repository.has_ops_log:
        return facts
    info = repository.repo_info()
    return facts | {
        "availability": info.status.availability.label,
        "reason": info.status.reason,
        "set_at": to_datetime(info.status.set_at_us).isoformat(),
        "snapshots": len(info.snapshots),
    }


def _tip(repository: Repository) -> dict[str, Any] | None:
    try:
        record = next(islice(repository.ancestry(Branch("main")), 1))
    except RefNotFoundError:
        return None
    return {
        "branch": "main",
        "snapshot_id": str(record.id),
        "written_at": to_datetime(record.flushed_at_us).isoformat(),
        "message": record.message,
    }


def standing_as_text(facts: dict[str, Any]) -> str:
    why = f": {facts['reason']}" if facts["reason"] else ""
    holds = [count_of(len(facts["branches"]), "branch"), count_of(len(facts["tags"]), "tag")]
    if "snapshots" in facts:
        holds.append(count_of(facts["snapshots"], "snapshot"))
    lines = [
        f"repository  {facts['location']} (format {facts['generation']})",
        f"status      {facts['availability']}{why}",
        f"holds       {', '.join(holds)}",
    ]
    tip = facts["tip"]
    if tip is not None:
        message = tip["message"].partition("\n")[0]
        lines.append(f"main        {tip['snapshot_id']}  {tip['written_at'][:19]}  {message}")
    return "\n".join(lines)


# Results of changes of history, in words and as JSON.

CONFLICTS = 4  # exit code
_SHOWN_EDITED_CHUNKS = 5


def run(operation: Callable[[Edit], Edited], edit: Edit, *, as_json: bool) -> None:
    """Does it, or with `dry_run` plans it, and prints what came of it.

    Where conflicts remain they are listed, nothing has changed, and the exit code says so.
    """
    try:
        done = operation(edit)
    except RebaseFailedError as error:
        done = Edited(conflicts=tuple(error.conflicts), solved=False)
    if as_json:
        print_json(_as_json(done, dry_run=edit.dry_run))
    else:
        _print_text(done, edit)
    if not done.solved:
        count = len(done.conflicts)
        print(
            f"error: {count} conflict{'s' if count > 1 else ''}: nothing was changed\n"
            "hint: --on-chunk-conflict, --delete-updated and --merge-appends solve some of them",
            file=sys.stderr,
        )
        raise typer.Exit(CONFLICTS)


def _as_json(done: Edited, *, dry_run: bool) -> dict[str, object]:
    return {
        "dry_run": dry_run,
        "snapshot_id": None if done.snapshot is None else str(done.snapshot),
        "fast_forward": done.fast_forward,
        "solved": done.solved,
        "conflicts": [
            {
                "conflict_type": each.conflict_type.name,
                "path": each.path,
                "chunk_indexes": each.conflicted_chunks,
            }
            for each in done.conflicts
        ],
        "changes": diff_as_json(done.applied),
    }


def _print_text(done: Edited, edit: Edit) -> None:
    if done.solved:
        print(_headline(done, edit))
    if changes := diff_as_text(done.applied):
        print(changes)
    if done.conflicts:
        print("conflicts, solved as told:" if done.solved else "conflicts:")
        print_table(["conflict", "path", "chunks"], [_row(each) for each in done.conflicts])


def _headline(done: Edited, edit: Edit) -> str:
    if done.snapshot is not None:
        how = "moved forward to" if done.fast_forward else "now at new snapshot"
        return f"branch {edit.branch} is {how} {done.snapshot}"
    if edit.dry_run and (done.fast_forward or diff_as_text(done.applied)):
        return f"branch {edit.branch} would {'be moved forward' if done.fast_forward else 'change'}"
    return f"nothing to do: branch {edit.branch} has it already"


def _row(conflict: Conflict) -> Sequence[Cell]:
    chunks = conflict.conflicted_chunks or []
    shown = " ".join(",".join(map(str, index)) for index in chunks[:_SHOWN_EDITED_CHUNKS])
    more = len(chunks) - _SHOWN_EDITED_CHUNKS
    return (
        str(conflict.conflict_type),
        conflict.path,
        f"{shown} and {more} more" if more > 0 else shown,
    )


# Commits that are reachable from a ref.


def only_by(repository: Repository, branch: str) -> list[SnapshotId]:
    """Snapshots to which no other branch and no tag leads, newest first."""
    branches = repository.branches()
    others = {tip for name, tip in branches.items() if name != branch}
    others |= set(repository.tags().values())
    kept = {record.id for tip in others for record in repository.ancestry(Exactly(tip))}
    walk = repository.ancestry(Exactly(branches[branch])) if branch in branches else ()
    return [record.id for record in walk if record.id not in kept]
