"""Repositories to use as a caller would."""

import pytest

from frazil import Repository, Storage, in_memory_storage


@pytest.fixture
def storage() -> Storage:
    return in_memory_storage()


@pytest.fixture
def repository(storage: Storage) -> Repository:
    return Repository.create(storage)
