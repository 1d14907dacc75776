"""A program of a user, checked by `mypy --strict` and run by test_typing.py."""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any, assert_type

import zarr

import frazil as icechunk
from frazil.config import RepositoryConfig
from frazil.repository import Repository
from frazil.storage import Storage


def open_repository() -> Repository:
    storage = icechunk.in_memory_storage()
    assert_type(storage, Storage)
    config = RepositoryConfig(inline_chunk_threshold_bytes=100)
    assert_type(config.inline_chunk_threshold_bytes, int | None)
    repo = icechunk.Repository.create(storage, config)
    assert_type(repo, Repository)
    assert_type(icechunk.Repository.open_or_create(storage), Repository)
    assert_type(icechunk.Repository.exists(storage), bool)
    assert_type(icechunk.Repository.fetch_config(storage), RepositoryConfig | None)
    return repo


def write(repo: Repository) -> str:
    session = repo.writable_session("main")
    assert_type(session, icechunk.Session)
    assert_type(session.store, icechunk.IcechunkStore)
    assert_type(session.read_only, bool)
    assert_type(session.branch, str | None)
    zarr.create_array(session.store, name="a", shape=4, chunks=2, dtype="i4")[:] = 1
    assert_type(session.status(), icechunk.Diff)
    first = session.commit("first", {"by": "me"})
    assert_type(first, str)
    with repo.transaction("main", message="second") as store:
        assert_type(store, icechunk.IcechunkStore)
        zarr.open_array(store, path="a")[0] = 2
    return first


def look_back(repo: Repository, first: str) -> None:
    assert_type(repo.readonly_session(snapshot_id=first), icechunk.Session)
    for snapshot in repo.ancestry(branch="main"):
        assert_type(snapshot, icechunk.SnapshotInfo)
        assert_type(snapshot.written_at, datetime)
        assert_type(snapshot.parent_id, str | None)
        assert_type(snapshot.metadata, dict[str, Any])
    diff = repo.diff(from_snapshot_id=first, to_branch="main")
    assert_type(diff, icechunk.Diff)
    assert_type(diff.updated_chunks, dict[str, list[list[int]]])
    assert_type(repo.list_branches(), set[str])
    assert_type(repo.lookup_branch("main"), str)
    for update in repo.ops_log():
        assert_type(update, icechunk.Update)
        if isinstance(update.kind, icechunk.UpdateType.NewCommit):
            assert_type(update.kind.new_snap_id, str)


def handle_errors(repo: Repository) -> None:
    try:
        repo.lookup_tag("v1")
    except icechunk.RefNotFoundError as error:
        assert_type(error.kind, str)
    mine, yours = repo.writable_session("main"), repo.writable_session("main")
    for number, session in enumerate((mine, yours)):
        zarr.open_array(session.store, path="a")[number] = 3
    mine.commit("mine")
    try:
        yours.commit("yours")
    except icechunk.ConflictError as error:
        assert_type(error.actual_parent, str | None)


def write_together(repo: Repository) -> None:
    session = repo.writable_session("main")
    fork = session.fork()
    assert_type(fork, icechunk.ForkSession)
    assert_type(fork.store, icechunk.IcechunkStore)
    zarr.open_array(fork.store, path="a")[2] = 4
    session.merge(fork)
    solver: icechunk.ConflictSolver = icechunk.BasicConflictSolver(
        on_chunk_conflict=icechunk.VersionSelection.UseOurs
    )
    assert_type(session.commit("together", rebase_with=solver, rebase_tries=3), str)
    other = repo.writable_session("main")
    zarr.open_array(other.store, path="a")[3] = 5
    assert_type(other.amend("together, and one more"), str)


def read_conflicts(error: icechunk.RebaseFailedError) -> list[str]:
    for conflict in error.conflicts:
        assert_type(conflict, icechunk.Conflict)
        assert_type(conflict.conflict_type, icechunk.ConflictType)
    return [conflict.path for conflict in error.conflicts]


def administer(repo: Repository) -> None:
    assert_type(repo.attribution, icechunk.Attribution)
    assert_type(repo.status, icechunk.RepoStatus)
    assert_type(repo.metadata, dict[str, Any])
    assert_type(repo.spec_version, icechunk.SpecVersion)
    assert_type(icechunk.ErrorKind("ref-not-found"), icechunk.ErrorKind)
    repo.set_metadata({"owner": "me"})


async def asynchronously(repo: Repository) -> None:
    session = await repo.readonly_session_async("main")
    assert_type(session, icechunk.Session)
    indices = session.chunk_coordinates("/a")
    assert_type(indices, AsyncIterator[tuple[int, ...]])
    assert [index async for index in indices] == [(0,), (1,)]
    assert_type(await repo.list_tags_async(), set[str])
    async for snapshot in repo.async_ancestry(branch="main"):
        assert_type(snapshot, icechunk.SnapshotInfo)


def main() -> None:
    repo = open_repository()
    look_back(repo, write(repo))
    handle_errors(repo)
    write_together(repo)
    administer(repo)
    asyncio.run(asynchronously(repo))


if __name__ == "__main__":
    main()
