"""Memory and local stores against a dict, through random histories."""

import pickle
import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings

from frazil.objectstore import Counting, LocalStore, MemoryStore, ObjectStore, Prefixed
from frazil.testing.objectstore_model import ObjectStoreMachine
from tests.examples_count import scaled


class MemoryMachine(ObjectStoreMachine):
    def new_store(self) -> ObjectStore:
        return MemoryStore()

    def reopened(self, store: ObjectStore) -> ObjectStore:
        return pickle.loads(pickle.dumps(store))  # type: ignore[no-any-return]


class LocalMachine(ObjectStoreMachine):
    def new_store(self) -> ObjectStore:
        self.root = Path(tempfile.mkdtemp())
        return LocalStore(self.root / "store", fsync=False)

    def reopened(self, store: ObjectStore) -> ObjectStore:
        return pickle.loads(pickle.dumps(store))  # type: ignore[no-any-return]

    def teardown(self) -> None:
        shutil.rmtree(self.root)


class WrappedMachine(ObjectStoreMachine):
    def new_store(self) -> ObjectStore:
        return Counting(Prefixed(MemoryStore(), "above/ö"))


_FEW = settings(
    max_examples=scaled(60),
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)

TestMemory = MemoryMachine.TestCase
TestMemory.settings = _FEW
TestLocal = LocalMachine.TestCase
TestLocal.settings = _FEW
TestWrapped = WrappedMachine.TestCase
TestWrapped.settings = _FEW
