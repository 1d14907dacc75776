"""Many writers at once on real servers: exactly one wins each round, and nothing is lost."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import icechunk
import numpy as np
import pytest
import zarr

import frazil
from frazil import ConflictError, Repository
from frazil.errors import PreconditionFailedError
from frazil.objectstore import Absent, Matches
from tests.crash import committer
from tests.servers.azure import AzureServer
from tests.servers.s3 import S3Server

type Server = S3Server | AzureServer
WRITERS = 16


class Race:
    """Writers that are let go together, round after round, by threads that stay."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool = pool
        self._barrier = Barrier(WRITERS)

    def winners(self, write: Callable[[int], object]) -> list[int]:
        def run(writer: int) -> bool:
            self._barrier.wait()
            try:
                write(writer)
            except (PreconditionFailedError, ConflictError):
                return False
            return True

        return [writer for writer, won in enumerate(self._pool.map(run, range(WRITERS))) if won]


def test_of_sixteen_writers_one_wins_each_of_two_hundred_rounds(hot_s3_server: S3Server) -> None:
    store = hot_s3_server.store(hot_s3_server.new_prefix())
    with ThreadPoolExecutor(WRITERS) as pool:
        race = Race(pool)
        condition: Absent | Matches = Absent()
        for number in range(200):
            won = race.winners(
                lambda writer, when=condition, number=number: store.put(  # type: ignore[misc]  # bound now
                    "key", b"%d %d" % (number, writer), when=when
                )
            )
            assert len(won) == 1
            found = store.get("key")
            assert bytes(found.data) == b"%d %d" % (number, won[0])
            condition = Matches(found.version)


def test_of_sixteen_commits_to_one_tip_one_is_made(hot_s3_server: S3Server) -> None:
    storage = hot_s3_server.storage(frazil, hot_s3_server.new_prefix())
    Repository.create(storage)
    repos = [Repository.open(storage) for _ in range(WRITERS)]
    made = list[int]()
    with ThreadPoolExecutor(WRITERS) as pool:
        race = Race(pool)
        for number in range(10):
            sessions = [repo.writable_session("main") for repo in repos]
            for writer, session in enumerate(sessions):
                zarr.create_group(session.store, path=f"{number}/{writer}")
            made += race.winners(lambda writer, own=sessions: own[writer].commit(str(writer)))  # type: ignore[misc]  # bound now
            assert len(made) == number + 1
    history = [info.message for info in repos[0].ancestry(branch="main")][-2::-1]
    assert history == [str(writer) for writer in made]


def test_eight_processes_commit_and_none_of_their_commits_is_lost(
    s3_server: S3Server, tmp_path: Path
) -> None:
    arguments = s3_server.arguments(s3_server.new_prefix())
    (tmp_path / committer.S3_ARGUMENTS).write_text(json.dumps(arguments))
    committer.create(tmp_path)
    context = committer.processes()
    running = [
        committer.start(context, tmp_path, i, first_value=1, count=2)
        for i in range(committer.COMMITTERS)
    ]
    for process in running:
        process.join(timeout=120)
    assert [process.exitcode for process in running] == [0] * committer.COMMITTERS

    repo = Repository.open(committer.storage(frazil, tmp_path))
    history = [info.id for info in repo.ancestry(branch="main")]
    assert sorted(history[:-2]) == sorted(one.snapshot for one in committer.reports(tmp_path))
    committer.assert_history_explains_array(repo, samples=4)
    reference = icechunk.Repository.open(committer.storage(icechunk, tmp_path))
    assert [info.id for info in reference.ancestry(branch="main")] == history


@pytest.mark.parametrize("name", ["s3_server", "azure_server"])
def test_of_two_conflicting_sessions_the_second_is_told(
    request: pytest.FixtureRequest, name: str
) -> None:
    server: Server = request.getfixturevalue(name)
    storage = server.storage(frazil, server.new_prefix())
    session = Repository.create(storage).writable_session("main")
    zarr.create_array(session.store, name="a", shape=(2000,), chunks=(1000,), dtype="f8")
    session.commit("array")
    first, second = (Repository.open(storage).writable_session("main") for _ in range(2))
    for value, each in enumerate((first, second)):
        zarr.open_array(each.store, path="a")[:1000] = value + 1.0
    tip = first.commit("first")
    with pytest.raises(ConflictError) as caught:
        second.commit("second")
    assert (caught.value.expected_parent, caught.value.actual_parent) == (session.snapshot_id, tip)
    with pytest.raises(frazil.RebaseFailedError):
        second.rebase(frazil.ConflictDetector())
    second.rebase(frazil.BasicConflictSolver(on_chunk_conflict=frazil.VersionSelection.UseOurs))
    second.commit("second")
    repo = Repository.open(storage)
    assert [info.message for info in repo.ancestry(branch="main")][:-2] == ["second", "first"]
    final = zarr.open_array(repo.readonly_session("main").store, path="a", mode="r")
    np.testing.assert_array_equal(np.asarray(final[:1000]), 2.0)
