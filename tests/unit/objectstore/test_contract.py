"""Every backend, and every wrapper that lets writes through, keeps the whole contract."""

from pathlib import Path

import pytest

from frazil.objectstore import Counting, LocalStore, MemoryStore, ObjectStore, Prefixed
from frazil.testing.objectstore import ObjectStoreContract


class TestMemoryStore(ObjectStoreContract):
    @pytest.fixture
    def store(self) -> ObjectStore:
        return MemoryStore()


class TestLocalStore(ObjectStoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> ObjectStore:
        return LocalStore(tmp_path / "not" / "there yet")


class TestLocalStoreWithoutFsync(ObjectStoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> ObjectStore:
        return LocalStore(tmp_path, fsync=False)


class TestCountingMemory(ObjectStoreContract):
    @pytest.fixture
    def store(self) -> ObjectStore:
        return Counting(MemoryStore())


class TestPrefixedMemory(ObjectStoreContract):
    @pytest.fixture
    def store(self) -> ObjectStore:
        inner = MemoryStore()
        inner.put("outside", b"not ours")
        inner.put("repos/one.more", b"not ours either")
        return Prefixed(inner, "repos/one")


class TestPrefixedLocal(ObjectStoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> ObjectStore:
        return Prefixed(LocalStore(tmp_path, fsync=False), "repos/ö ne")
