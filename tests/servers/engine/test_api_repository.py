import pytest

from frazil import Repository, Storage
from tests.unit.api.test_repository import *  # noqa: F403 - the same tests, on servers

del test_what_a_repository_says_about_itself  # noqa: F821 - that it is in memory


@pytest.fixture
def repository(storage: Storage) -> Repository:
    return Repository.create(storage)
