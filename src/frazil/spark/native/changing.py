"""Procedures that change a repository: refs, history, maintenance.

Each takes `dry_run`, and then returns the rows that it would return, as far as they are known
before: ids of snapshots that would be made are NULL. What is wrong is found out in a dry run, too.
A branch only moves from where the procedure found it: if another client was faster, ConflictError
is raised and nothing has changed.

They run on threads of one Python process of the driver. Those that run Spark jobs (ingest,
rechunk) are in spark/actions/cluster_procedures.py.
"""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from frazil.engine.history import history_editing
from frazil.engine.history.history_editing import Edit, Edited
from frazil.engine.refs import ancestry, refs
from frazil.engine.refs.version import Branch
from frazil.engine.repository import Repository
from frazil.errors import InvalidInputError
from frazil.ids import SnapshotId, format_ids
from frazil.maintenance.executor import PACK_BYTES, SMALL_BYTES, ThreadExecutor, quiet_files
from frazil.maintenance.expire import ExpireRequest, expire, plan_expire
from frazil.maintenance.gc import GCPlan, GCRequest, collect_garbage, plan_gc
from frazil.maintenance.migrate import migration
from frazil.maintenance.pack import pack, plan_pack, plan_unpack, unpack
from frazil.maintenance.rewrite_manifests import plan_rewrite_manifests, rewrite_manifests
from frazil.paths import NodePath
from frazil.spark.native.names import Found, find_version_named
from frazil.spark.native.targets import require_branch
from frazil.spark.table.opened import engine_version
from frazil.spark.table.options import Version

type Arguments = Mapping[str, Any]
type Rows = Iterable[list[Any]]

MOST_ROWS = 100_000  # all of them are in the driver
_DAY_US = 86_400_000_000
_HOUR_US = 3_600_000_000


def is_dry_run(arguments: Arguments) -> bool:
    return arguments.get("dry_run") is True


def _text(arguments: Arguments, name: str) -> str:
    found = arguments.get(name)
    if not found:
        raise InvalidInputError(f"the argument {name!r} is missing")
    return str(found)


def _repository(found: Found) -> Repository:
    return found.lookup.repository


def _branch(found: Found) -> str:
    return require_branch(found.named.version)


def _tip(found: Found) -> SnapshotId:
    return found.session.snapshot_id


# Branches and tags


def create_branch(found: Found, arguments: Arguments) -> Rows:
    repository, name, snapshot = _repository(found), _text(arguments, "branch"), _tip(found)
    refs.create_branch(repository.repo_info(), name, snapshot)
    if not is_dry_run(arguments):
        repository.create_branch(name, snapshot)
    return [[name, str(snapshot)]]


def create_tag(found: Found, arguments: Arguments) -> Rows:
    repository, name, snapshot = _repository(found), _text(arguments, "tag"), _tip(found)
    refs.create_tag(repository.repo_info(), name, snapshot)
    if not is_dry_run(arguments):
        repository.create_tag(name, snapshot)
    return [[name, str(snapshot)]]


def delete_branch(found: Found, arguments: Arguments) -> Rows:
    repository, name = _repository(found), _text(arguments, "branch")
    refs.require_deletable(name)
    snapshot = repository.lookup_branch(name)
    if not is_dry_run(arguments):
        repository.delete_branch(name)
    return [[name, str(snapshot)]]


def delete_tag(found: Found, arguments: Arguments) -> Rows:
    repository, name = _repository(found), _text(arguments, "tag")
    snapshot = repository.lookup_tag(name)
    if not is_dry_run(arguments):
        repository.delete_tag(name)
    return [[name, str(snapshot)]]


def reset_branch(found: Found, arguments: Arguments) -> Rows:
    """`version` says where to, so that the table is found there."""
    repository, name = _repository(found), _text(arguments, "branch")
    _text(arguments, "version")
    before = repository.lookup_branch(name)
    return [[name, *_move(found, arguments, name, before, _tip(found))]]


def _move(
    found: Found, arguments: Arguments, branch: str, before: SnapshotId, to: SnapshotId
) -> list[str]:
    """Moves a branch to a snapshot; both ids."""
    repository = _repository(found)
    refs.reset_branch(repository.repo_info(), branch, to, expected=before)
    if not is_dry_run(arguments) and before != to:
        repository.reset_branch(branch, to, expected=before)
    return [str(before), str(to)]


def rollback_to_snapshot(found: Found, arguments: Arguments) -> Rows:
    branch, wanted = _branch(found), _text(arguments, "snapshot_id")
    snapshot = SnapshotId.parse(wanted)
    history = (each.id for each in _repository(found).ancestry(Branch(branch)))
    if snapshot not in history:
        raise InvalidInputError(
            f"snapshot {wanted} is not in the history of branch {branch!r};"
            " set_current_snapshot moves to any snapshot"
        )
    return [_move(found, arguments, branch, _tip(found), snapshot)]


def rollback_to_timestamp(found: Found, arguments: Arguments) -> Rows:
    branch, when = _branch(found), arguments.get("timestamp")
    if when is None:
        raise InvalidInputError("the argument 'timestamp' is missing")
    then = Version(branch=branch, as_of_us=int(when))
    snapshot = _repository(found).readonly_session(engine_version(then)).snapshot_id
    return [_move(found, arguments, branch, _tip(found), snapshot)]


def set_current_snapshot(found: Found, arguments: Arguments) -> Rows:
    branch, named, ref = _branch(found), arguments.get("snapshot_id"), arguments.get("ref")
    if (named is None) == (ref is None):
        raise InvalidInputError("say either snapshot_id or ref")
    if named is not None:
        snapshot = SnapshotId.parse(str(named))
    else:
        version = find_version_named(_repository(found), str(ref))
        snapshot = _repository(found).readonly_session(engine_version(version)).snapshot_id
    return [_move(found, arguments, branch, _tip(found), snapshot)]


def fast_forward(found: Found, arguments: Arguments) -> Rows:
    repository, branch, to = _repository(found), _text(arguments, "branch"), _text(arguments, "to")
    before = repository.lookup_branch(branch)
    version = find_version_named(repository, to)
    after = repository.readonly_session(engine_version(version)).snapshot_id
    info = repository.repo_info()
    rows = ancestry.ancestor_rows(info, ancestry.require_row(info, after))
    if ancestry.require_row(info, before) not in rows:
        raise InvalidInputError(
            f"branch {branch!r} has commits that {to!r} has not: merge applies those of {to!r}"
        )
    return [[branch, *_move(found, arguments, branch, before, after)]]


# Commits made of other commits


def _edit(found: Found, arguments: Arguments) -> Edit:
    return Edit(
        branch=_branch(found), message=arguments.get("message"), dry_run=is_dry_run(arguments)
    )


def _edited(found: Found, edited: Edited) -> list[Any]:
    """Snapshots before and after, how many nodes changed, and conflicts, which only a dry run has:
    otherwise they are an error.
    """
    diff = edited.applied
    changed = {
        *diff.new_groups, *diff.new_arrays, *diff.deleted_groups, *diff.deleted_arrays,
        *diff.updated_groups, *diff.updated_arrays, *diff.updated_chunks,
        *(each.to_path for each in diff.moved),
    }  # fmt: skip
    conflicts = [f"{each.path}: {each.conflict_type}" for each in edited.conflicts]
    current = None if edited.snapshot is None else str(edited.snapshot)
    return [str(_tip(found)), current, len(changed), [] if edited.solved else conflicts]


def cherrypick_snapshot(found: Found, arguments: Arguments) -> Rows:
    wanted = _text(arguments, "snapshot_id")
    snapshot = SnapshotId.parse(wanted)
    edited = history_editing.cherry_pick(_repository(found), snapshot, _edit(found, arguments))
    return [[wanted, *_edited(found, edited)]]


def revert_snapshot(found: Found, arguments: Arguments) -> Rows:
    wanted = _text(arguments, "snapshot_id")
    snapshot = SnapshotId.parse(wanted)
    edited = history_editing.revert(_repository(found), snapshot, _edit(found, arguments))
    return [[wanted, *_edited(found, edited)]]


def merge(found: Found, arguments: Arguments) -> Rows:
    source = _text(arguments, "source")
    edited = history_editing.merge(_repository(found), source, _edit(found, arguments))
    return [[source, *_edited(found, edited), edited.fast_forward]]


# Expiration and garbage


def expire_snapshots(found: Found, arguments: Arguments) -> Rows:
    """Without a time and ids, what is older than five days, as with Iceberg."""
    repository, named = _repository(found), arguments.get("snapshot_ids")
    older_than = arguments.get("older_than")
    if older_than is None and not named:
        older_than = repository.clock() - 5 * _DAY_US
    request = ExpireRequest(
        older_than_us=older_than,
        retain_last=arguments.get("retain_last") or 0,
        snapshots=frozenset(map(SnapshotId.parse, named)) if named else None,
    )
    plan = plan_expire(repository, request)
    if len(plan.snapshots) > MOST_ROWS:
        raise InvalidInputError(
            f"{len(plan.snapshots)} snapshots are more than a procedure returns: use"
            " frazil.Repository.expire_snapshots"
        )
    rows = {each: _snapshot_row(repository, each) for each in plan.snapshots}
    if is_dry_run(arguments):
        return rows.values()
    done = expire(repository, plan).snapshots
    return [rows.get(each, [each, None, None]) for each in done]


def _snapshot_row(repository: Repository, snapshot: str) -> list[Any]:
    record = repository.lookup_snapshot(SnapshotId.parse(snapshot))
    return [snapshot, record.flushed_at_us, record.message]


def remove_orphan_files(found: Found, arguments: Arguments) -> Rows:
    """Without a time, what is older than three days, as with Iceberg."""
    repository, older_than = _repository(found), arguments.get("older_than")
    executor = ThreadExecutor(quiet_files(repository))
    hours = arguments.get("safety_hours")
    request = GCRequest(
        cutoff_us=repository.clock() - 3 * _DAY_US if older_than is None else older_than,
        safety_age_us=0
        if is_dry_run(arguments)
        else _HOUR_US * (24 if hours is None else int(hours)),
    )
    plan = plan_gc(repository, request, executor)
    if is_dry_run(arguments):
        return _garbage(plan)
    rows = list(islice(_garbage(plan), MOST_ROWS))
    collect_garbage(repository, plan, executor)
    return rows


def _garbage(plan: GCPlan) -> Iterable[list[Any]]:
    for listing in plan.garbage.values():
        kind, sizes = listing.kind.value.rstrip("/"), listing.size_bytes.tolist()
        for name, size in zip(format_ids(listing.ids), sizes, strict=True):
            yield [kind, name, size]


# Rewriting


def rewrite(found: Found, arguments: Arguments) -> Rows:
    repository, branch = _repository(found), _branch(found)
    plan = plan_rewrite_manifests(repository, branch)
    if is_dry_run(arguments):
        return [[plan.manifests, None, plan.references, str(plan.snapshot), None]]
    message = arguments.get("message") or f"Rewrite manifests of {branch}"
    done = rewrite_manifests(repository, plan, str(message))
    return [
        [done.manifests_before, done.manifests, done.references, str(plan.snapshot), done.snapshot]
    ]


def pack_chunks(found: Found, arguments: Arguments) -> Rows:
    """Packs the chunks of the table, and of what is below it."""
    repository, branch = _repository(found), _branch(found)
    executor = ThreadExecutor(quiet_files(repository))
    plan = plan_pack(
        repository,
        branch,
        (NodePath(found.named.path),),
        executor,
        small_bytes=arguments.get("small_bytes") or SMALL_BYTES,
        pack_bytes=arguments.get("pack_bytes") or PACK_BYTES,
    )
    message = arguments.get("message")
    done = plan.result() if is_dry_run(arguments) else pack(repository, plan, message, executor)
    return [
        [done.chunks, done.packs, done.bytes, done.references, done.manifests, str(plan.snapshot),
         done.snapshot]
    ]  # fmt: skip


def unpack_chunks(found: Found, arguments: Arguments) -> Rows:
    repository, branch = _repository(found), _branch(found)
    executor = ThreadExecutor(quiet_files(repository))
    plan = plan_unpack(repository, branch, (NodePath(found.named.path),), executor)
    message = arguments.get("message")
    done = plan.result() if is_dry_run(arguments) else unpack(repository, plan, message, executor)
    return [
        [done.chunks, done.packs, done.bytes, done.references, done.manifests, str(plan.snapshot),
         done.snapshot]
    ]  # fmt: skip


def migrate(found: Found, arguments: Arguments) -> Rows:
    repository, to = _repository(found), arguments.get("to_version")
    executor = ThreadExecutor(quiet_files(repository))
    plan = migration.plan_migration(repository, executor, to=2 if to is None else int(to))
    done = plan.result(dry_run=True) if is_dry_run(arguments) else migration.migrate(plan, executor)
    return [
        [done.generation, done.spec_version, done.snapshots, done.manifests, done.copied,
         done.bytes]
    ]  # fmt: skip


def confirm_migration(found: Found, arguments: Arguments) -> Rows:
    store = _repository(found).raw_store
    leftovers = migration.find_leftovers(store)
    if not is_dry_run(arguments):
        migration.confirm(store, leftovers)
    return [[str(leftovers.generation), len(leftovers.keys), leftovers.bytes]]
