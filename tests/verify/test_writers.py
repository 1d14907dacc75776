"""Somebody commits while the repository is verified."""

from collections.abc import Iterator

import numpy as np
import pytest

from frazil.engine.repository import Repository
from frazil.maintenance.verify.verify_store import verify
from frazil.objectstore.memory import MemoryStore
from frazil.objectstore.protocol import ObjectInfo
from tests.verify.damage import A, copied, healthy


class Busy(MemoryStore):
    """Whenever everything is listed, somebody commits a chunk: half before, half after."""

    commits = 0

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        found = list(super().list(prefix))
        if not prefix and self.commits < 3:
            self.commits += 1
            session = Repository.open(self).writable_session("main")
            session.set_chunk(A, (2,), np.random.default_rng().bytes(500))
            session.commit("meanwhile")
        return iter(found)


@pytest.mark.parametrize("spec_version", [1, 2])
def test_a_commit_meanwhile_is_no_problem(spec_version: int) -> None:
    store = Busy()
    source = copied(healthy(spec_version))
    for info in list(source.list()):
        store.put(info.key, bytes(source.get(info.key).data))
    for _ in range(3):
        assert verify(store).problems == ()
    assert store.commits == 3
