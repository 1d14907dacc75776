"""alpha1 and alpha2 on a real server: a commit creates an object, and nothing is ever replaced."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import zarr

import frazil
from frazil import Repository
from frazil.api.values import AlphaVersion
from frazil.objectstore import Absent, Always
from frazil.objectstore.remote import RemoteStore
from tests.servers.s3 import S3Server
from tests.servers.test_races import WRITERS, Race


@pytest.mark.parametrize("version", ["alpha2", "alpha1"])
def test_of_sixteen_commits_to_one_tip_one_is_made(
    hot_s3_server: S3Server, version: AlphaVersion, monkeypatch: pytest.MonkeyPatch
) -> None:
    put, conditions = RemoteStore.put, set[type]()

    def watched(self: RemoteStore, key: str, data: bytes, **given: Any) -> str:
        conditions.add(type(given.get("when", Always())))
        return put(self, key, data, **given)

    monkeypatch.setattr(RemoteStore, "put", watched)
    storage = hot_s3_server.storage(frazil, hot_s3_server.new_prefix())
    Repository.create(storage, spec_version=version)
    repos = [Repository.open(storage) for _ in range(WRITERS)]
    made = list[int]()
    with ThreadPoolExecutor(WRITERS) as pool:
        race = Race(pool)
        for number in range(4):
            sessions = [repo.writable_session("main") for repo in repos]
            for writer, session in enumerate(sessions):
                zarr.create_group(session.store, path=f"{number}/{writer}")
            made += race.winners(lambda writer, own=sessions: own[writer].commit(str(writer)))  # type: ignore[misc]  # bound now
            assert len(made) == number + 1
    history = [info.message for info in repos[0].ancestry(branch="main")][-2::-1]
    assert history == [str(writer) for writer in made]
    assert conditions == {Always, Absent}


@pytest.mark.parametrize("version", ["alpha2", "alpha1"])
def test_arrays_are_read_back(s3_server: S3Server, version: AlphaVersion) -> None:
    storage = s3_server.storage(frazil, s3_server.new_prefix())
    session = Repository.create(storage, spec_version=version).writable_session("main")
    array = zarr.create_array(
        session.store, name="a", shape=(300, 300), chunks=(100, 100), dtype="f8"
    )
    array[:] = np.arange(90_000).reshape(300, 300)
    session.commit("data")
    found = Repository.open(storage).readonly_session("main")
    values = zarr.open_array(found.store, path="a", mode="r")
    np.testing.assert_array_equal(values[:], np.arange(90_000).reshape(300, 300))
