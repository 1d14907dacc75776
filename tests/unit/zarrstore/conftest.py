"""Sessions to look at through the Zarr face."""

import pytest

from frazil.objectstore.memory import MemoryStore
from frazil.repo.repository import Repository
from frazil.repo.session import Session


@pytest.fixture
def repository() -> Repository:
    return Repository.create(MemoryStore())


@pytest.fixture
def session(repository: Repository) -> Session:
    return repository.writable_session("main")
