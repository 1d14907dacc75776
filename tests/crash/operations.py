"""What a repository can be in the middle of when its process dies: one operation each.

An operation is prepared once; `act` does it, and reports each step after it has returned.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import zarr

import frazil
from frazil import Repository, Storage
from frazil.errors import IcechunkError, RepositoryNotFoundError

type Report = Callable[[str], None]
CHUNK = 256  # float64: 2 KiB, longer than an inline chunk
LONG_AGO = timedelta(days=1)

# One message and content of each array, newest first, by branch and tag; and what else there is.
type Commit = tuple[str, tuple[tuple[str, bytes], ...]]


@dataclass(frozen=True, slots=True)
class State:
    """What a reader sees; None of a place without a repository."""

    refs: tuple[tuple[str, tuple[Commit, ...]], ...]
    metadata: str


@dataclass(frozen=True, slots=True)
class Operation:
    """`piecewise`: snapshots change one by one; a reader may see some old and some new, and
    doing it again finishes it.
    """

    act: Callable[[Storage, Report], None]
    prepare: Callable[[Storage], None]
    piecewise: bool = False


def see(storage: Storage) -> State | None:
    """Everything that a reader can see, every chunk read."""
    try:
        repo = Repository.open(storage)
    except RepositoryNotFoundError:
        return None
    known = dict[str, Commit]()
    refs = [(f"branch {name}", {"branch": name}) for name in sorted(repo.list_branches())]
    refs += [(f"tag {name}", {"tag": name}) for name in sorted(repo.list_tags())]
    found = [(name, _history(repo, ref, known)) for name, ref in refs]
    return State(tuple(found), repr(repo.metadata if repo.spec_version == 2 else None))


def _history(repo: Repository, ref: dict[str, str], known: dict[str, Commit]) -> tuple[Commit, ...]:
    commits = []
    for info in repo.ancestry(**ref):
        if info.id not in known:
            known[info.id] = info.message, _content(repo, info.id)
        commits.append(known[info.id])
    return tuple(commits)


def _content(repo: Repository, snapshot: str) -> tuple[tuple[str, bytes], ...]:
    store = repo.readonly_session(snapshot_id=snapshot).store
    try:
        group = zarr.open_group(store, mode="r")
    except FileNotFoundError:  # the first snapshot has no group
        return ()
    arrays = sorted(group.arrays())
    return tuple((name, np.asarray(array[:]).tobytes()) for name, array in arrays)


# How it was before


def write(repo: Repository, value: float, message: str, *, branch: str = "main") -> str:
    session = repo.writable_session(branch)
    zarr.open_array(session.store, path="a")[:] = value + np.arange(4 * CHUNK)
    zarr.open_array(session.store, path="b")[:] = value
    return session.commit(message)


def _filled(repo: Repository) -> None:
    session = repo.writable_session("main")
    zarr.create_group(session.store)
    for name, size, chunk in (("a", 4 * CHUNK, CHUNK), ("b", 4, 2)):
        zarr.create_array(
            session.store, name=name, shape=(size,), chunks=(chunk,), dtype="f8", compressors=None
        )
    session.commit("arrays")
    write(repo, 1.0, "one")
    repo.create_branch("old", repo.lookup_branch("main"))
    repo.create_tag("old", repo.lookup_branch("main"))
    write(repo, 2.0, "two")


def prepared(storage: Storage) -> None:
    """Three commits, a branch and a tag; and a commit that nothing leads to."""
    repo = Repository.create(storage)
    _filled(repo)
    tip = repo.lookup_branch("main")
    write(repo, -1.0, "given up")
    repo.reset_branch("main", tip)


def prepared_pages(storage: Storage) -> None:
    """The same, with an ops log in many backups."""
    config = frazil.RepositoryConfig(num_updates_per_repo_info_file=2)
    Repository.create(storage, config).save_config()
    _filled(Repository.open(storage))


def prepared_v1(storage: Storage) -> None:
    _filled(Repository.create(storage, spec_version=1))


def scattered(storage: Storage) -> None:
    """Chunks that were written one by one have an object each."""
    prepared(storage)
    session = Repository.open(storage).writable_session("main")
    array = zarr.open_array(session.store, path="a")
    for chunk in range(4):
        array[chunk * CHUNK : (chunk + 1) * CHUNK] = chunk
    session.commit("scattered")


def empty(_: Storage) -> None:
    """Nothing is there."""


# What is done


def _create(storage: Storage, report: Report) -> None:
    Repository.create(storage)
    report("created")


def _commit(storage: Storage, report: Report) -> None:
    repo = Repository.open(storage)
    for number in (3.0, 4.0):
        write(repo, number, f"commit {number}")
        report("committed")


def _rebase(storage: Storage, report: Report) -> None:
    repo = Repository.open(storage)
    ours, theirs = repo.writable_session("main"), repo.writable_session("main")
    zarr.open_array(theirs.store, path="a")[:CHUNK] = 7.0
    zarr.open_array(ours.store, path="a")[CHUNK : 2 * CHUNK] = 8.0
    theirs.commit("theirs")
    report("theirs")
    ours.commit("ours", rebase_with=frazil.ConflictDetector())
    report("ours")


def _amend(storage: Storage, report: Report) -> None:
    session = Repository.open(storage).writable_session("main")
    zarr.open_array(session.store, path="a")[:] = 5.0
    session.amend("amended")
    report("amended")


def _refs(storage: Storage, report: Report) -> None:
    repo = Repository.open(storage)
    tip, old = repo.lookup_branch("main"), repo.lookup_branch("old")
    steps: list[Callable[[], Any]] = [
        lambda: repo.create_branch("new", tip),
        lambda: repo.reset_branch("new", old),
        lambda: repo.delete_branch("old"),
        lambda: repo.create_tag("new", tip),
        lambda: repo.delete_tag("old"),
    ]
    if repo.spec_version == 2:
        steps.append(lambda: repo.set_metadata({"answer": 42}))
    for step in steps:
        step()
        report("done")


def _expire(storage: Storage, report: Report) -> None:
    Repository.open(storage).expire_snapshots(datetime.now(UTC) + LONG_AGO)
    report("expired")


def _collect(storage: Storage, report: Report) -> None:
    Repository.open(storage).garbage_collect(datetime.now(UTC) + LONG_AGO)
    report("collected")


def _expire_and_collect(storage: Storage, report: Report) -> None:
    _expire(storage, report)
    until = datetime.now(UTC) + LONG_AGO
    Repository.open(storage).garbage_collect(until, incremental=True, backups_older_than=until)
    report("collected")


def _rewrite(storage: Storage, report: Report) -> None:
    Repository.open(storage).rewrite_manifests("rewritten", branch="main")
    report("rewritten")


def _pack(storage: Storage, report: Report) -> None:
    Repository.open(storage).pack("packed", branch="main")
    report("packed")


def _unpack(storage: Storage, report: Report) -> None:
    Repository.open(storage).unpack("unpacked", branch="main")
    report("unpacked")


def _purge(storage: Storage, report: Report) -> None:
    Repository.open(storage).purge_path("/b")
    report("purged")


def _migrate(storage: Storage, report: Report) -> None:
    Repository.open(storage).migrate(2)
    report("migrated")
    Repository.open(storage).confirm_migration()
    report("confirmed")


OPERATIONS = {
    "create": Operation(_create, empty),
    "commit": Operation(_commit, prepared),
    "commit_v1": Operation(_commit, prepared_v1),
    "rebase": Operation(_rebase, prepared),
    "amend": Operation(_amend, prepared),
    "refs": Operation(_refs, prepared),
    "refs_v1": Operation(_refs, prepared_v1),
    "expire": Operation(_expire, prepared),
    "collect": Operation(_collect, prepared),
    "expire_and_collect": Operation(_expire_and_collect, prepared_pages),
    "rewrite_manifests": Operation(_rewrite, prepared),
    "pack": Operation(_pack, scattered),
    "unpack": Operation(_unpack, prepared),
    "purge": Operation(_purge, prepared, piecewise=True),
    "migrate": Operation(_migrate, prepared_v1),
}


# What must hold afterwards

OLDEST = (frazil.UpdateType.RepoInitialized, frazil.UpdateType.RepoMigrated)


def problems(storage: Storage, operation: Operation, states: list[State | None], told: int) -> str:
    """What is wrong after `told` steps were reported; empty if nothing is."""
    try:
        return _problems(storage, operation, states, told)
    except IcechunkError as error:
        return f"{type(error).__name__}: {error}"


def _problems(storage: Storage, operation: Operation, states: list[State | None], told: int) -> str:
    found = see(storage)
    allowed = states[told : told + 2]
    if not (_mixed(found, allowed) if operation.piecewise else found in allowed):
        return f"a reader sees what no step leaves: {_brief(found)}, not {[*map(_brief, allowed)]}"
    if found is None:
        Repository.create(storage)
        return ""
    if operation.piecewise:
        operation.act(storage, lambda _: None)
        found = see(storage)
        if not _mixed(found, states[-1:]):
            return f"doing it again does not finish it: {_brief(found)}"
    repo = Repository.open(storage)
    if errors := repo.verify().errors:
        return f"verify: {errors[0].kind} {errors[0].text}"
    if repo.spec_version == 2 and not isinstance([*repo.ops_log()][-1].kind, OLDEST):
        return "the ops log is cut short"
    session = repo.writable_session("main")
    zarr.create_group(session.store, path="next")
    session.commit("next")
    messages = [info.message for info in Repository.open(storage).ancestry(branch="main")]
    assert found is not None
    before = [message for message, _ in dict(found.refs)["branch main"]]
    return "" if messages == ["next", *before] else f"after the next commit: {messages}"


def _mixed(found: State | None, allowed: list[State | None]) -> bool:
    """Whether each thing that is seen is that of one of the states."""
    if found is None or None in allowed:
        return found in allowed
    parts = {part for state in allowed if state for _, commits in state.refs for part in commits}
    return all(part in parts for _, commits in found.refs for part in commits)


def _brief(state: State | None) -> object:
    return state and {name: [message for message, _ in commits] for name, commits in state.refs}
