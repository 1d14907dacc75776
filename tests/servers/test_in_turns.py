"""One repository on a server, used by frazil and by the reference: in turns, and at once."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Barrier
from typing import Any

import icechunk
import numpy as np
import pytest
import zarr

import frazil
from tests.servers.azure import AzureServer
from tests.servers.s3 import S3Server

ENGINES: list[Any] = [frazil, icechunk]
BOTH = pytest.mark.parametrize("engines", [ENGINES, ENGINES[::-1]], ids=["frazil", "icechunk"])
CHUNK = 200  # float64: 1600 bytes, so that chunks are objects


@dataclass(frozen=True, slots=True)
class Place:
    server: S3Server | AzureServer
    prefix: str

    def create(self, engine: Any) -> Any:
        repo = engine.Repository.create(self.server.storage(engine, self.prefix))
        session = repo.writable_session("main")
        zarr.create_array(
            session.store, name="a", shape=(6 * CHUNK,), chunks=(CHUNK,), dtype="f8", fill_value=0
        )
        session.commit("array")
        return repo

    def open(self, engine: Any) -> Any:
        return engine.Repository.open(self.server.storage(engine, self.prefix))


@pytest.fixture(params=["s3_server", "azure_server"])
def place(request: pytest.FixtureRequest) -> Place:
    server = request.getfixturevalue(request.param)
    return Place(server, server.new_prefix())


def write(session: Any, part: int, value: float) -> None:
    zarr.open_array(session.store, path="a")[part * CHUNK : (part + 1) * CHUNK] = value


def values(repo: Any) -> list[float]:
    array = zarr.open_array(repo.readonly_session("main").store, path="a", mode="r")
    parts = np.asarray(array[:]).reshape(6, CHUNK)
    assert (parts == parts[:, :1]).all()
    return [float(part[0]) for part in parts]


def history(repo: Any) -> list[tuple[str, str]]:
    return [(info.message, info.id) for info in repo.ancestry(branch="main")]


def assert_same_to_both(place: Place) -> None:
    ours, theirs = place.open(frazil), place.open(icechunk)
    assert history(ours) == history(theirs)
    assert values(ours) == values(theirs)
    assert ours.list_branches() == theirs.list_branches()
    assert ours.list_tags() == theirs.list_tags()
    assert len(list(ours.ops_log())) == len(list(theirs.ops_log()))


@BOTH
def test_commits_alternate(place: Place, engines: list[Any]) -> None:
    place.create(engines[0])
    for turn in range(6):
        repo = place.open(engines[turn % 2])
        assert values(repo) == [float(n + 1) if n < turn else 0.0 for n in range(6)]
        session = repo.writable_session("main")
        write(session, turn, turn + 1)
        session.commit(f"turn {turn}")
    assert_same_to_both(place)


@BOTH
def test_open_repositories_see_what_the_other_does(place: Place, engines: list[Any]) -> None:
    """Neither is opened again: what is remembered of the last look must not be trusted."""
    place.create(engines[0])
    here, there = (place.open(engine) for engine in engines)
    for turn, repo in enumerate([here, there, here, there]):
        session = repo.writable_session("main")
        write(session, turn, 7.0)
        session.commit(f"turn {turn}")
    here.create_tag("mine", here.lookup_branch("main"))
    there.create_branch("theirs", there.lookup_tag("mine"))
    with pytest.raises(engines[1].IcechunkError) as caught:
        there.create_tag("mine", there.lookup_branch("main"))
    assert caught.value.kind == "tag-already-exists"
    here.delete_tag("mine")
    there.reset_branch("theirs", list(here.ancestry(branch="main"))[2].id)
    assert here.list_tags() == there.list_tags() == set()
    assert here.lookup_branch("theirs") == there.lookup_branch("theirs")
    assert_same_to_both(place)


@BOTH
def test_changes_are_rebased_over_commits_of_the_other(place: Place, engines: list[Any]) -> None:
    place.create(engines[0])
    here, there = (place.open(engine) for engine in engines)
    mine, same = here.writable_session("main"), here.writable_session("main")
    write(mine, 0, 1.0)
    write(same, 1, 2.0)
    other = there.writable_session("main")
    write(other, 1, 3.0)
    other.commit("other")
    mine.commit("mine", rebase_with=engines[0].ConflictDetector())
    with pytest.raises(engines[0].RebaseFailedError) as caught:
        same.commit("same", rebase_with=engines[0].ConflictDetector())
    assert [found.conflicted_chunks for found in caught.value.conflicts] == [[[1]]]
    assert values(there)[:2] == [1.0, 3.0]
    assert_same_to_both(place)


def test_commits_of_both_at_the_same_instant_are_all_kept(place: Place) -> None:
    place.create(frazil)
    rounds, repos = 3, [place.open(engine) for engine in (frazil, icechunk) * 3]
    barrier = Barrier(len(repos))

    def commit_all(writer: int) -> dict[str, str]:
        engine, repo, told = ENGINES[writer % 2], repos[writer], {}
        for number in range(1, rounds + 1):
            message = f"{writer}:{number}"
            session = repo.writable_session("main")
            write(session, writer, number)
            barrier.wait()
            told[message] = session.commit(
                message, rebase_with=engine.ConflictDetector(), rebase_tries=100
            )
        return told

    with ThreadPoolExecutor(len(repos)) as pool:
        told = [item for part in pool.map(commit_all, range(6)) for item in part.items()]
    assert sorted(history(repos[0])[:-2]) == sorted(told)
    assert values(repos[1]) == [float(rounds)] * 6
    assert_same_to_both(place)
