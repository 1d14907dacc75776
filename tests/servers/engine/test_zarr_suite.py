"""zarr's suite for stores, as far as it suits a hierarchy, on S3."""

import pytest

from frazil import Repository, Storage
from tests.zarr_suite.test_store_suite import IcechunkStoreTests


class TestOnServer(IcechunkStoreTests):
    @pytest.fixture
    def repository(self, storage: Storage) -> Repository:
        return Repository.create(storage)
