"""An object store beside a dict, through random histories of hypothesis.

class MyMachine(ObjectStoreMachine):
    def new_store(self) -> ObjectStore:
        return MyStore(...)

TestMyStore = MyMachine.TestCase
"""

from abc import abstractmethod

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from frazil.objectstore.protocol import ObjectStore
from frazil.ranges import ByteRange, From, Last, Range, Until
from frazil.testing.store_model import DIRECTORIES, MAX_POSITION, NAMES, StoreModel

KEYS = st.builds(
    lambda above, name: "/".join([*above, name]),
    st.lists(st.sampled_from(DIRECTORIES), max_size=2),
    st.sampled_from(NAMES),
)
CONTENTS = st.binary(max_size=40)
_POSITIONS = st.integers(0, MAX_POSITION)
RANGES = st.builds(lambda one, two: Range(min(one, two), max(one, two)), _POSITIONS, _POSITIONS)
BYTE_RANGES = st.one_of(
    RANGES, st.builds(From, _POSITIONS), st.builds(Last, _POSITIONS), st.builds(Until, _POSITIONS)
)


def segments(max_size: int = 12) -> st.SearchStrategy[str]:
    """Anything that may stand between two slashes of a key."""
    letters = st.characters(exclude_categories=["Cs"], exclude_characters="/")
    return st.text(letters, min_size=1, max_size=max_size).filter(
        lambda text: text not in (".", "..")
    )


class ObjectStoreMachine(RuleBasedStateMachine):
    @abstractmethod
    def new_store(self) -> ObjectStore:
        """An empty, writable store."""

    def reopened(self, store: ObjectStore) -> ObjectStore:
        """Another instance on the same objects, where the backend has such a thing."""
        return store

    @initialize()
    def begin(self) -> None:
        self.model = StoreModel(self.new_store())

    @rule(key=KEYS, data=CONTENTS)
    def put(self, key: str, data: bytes) -> None:
        self.model.put(key, data)

    @rule(key=KEYS, data=CONTENTS)
    def create(self, key: str, data: bytes) -> None:
        self.model.create(key, data)

    @rule(key=KEYS, data=CONTENTS)
    def update(self, key: str, data: bytes) -> None:
        self.model.update(key, data)

    @rule(keys=st.lists(KEYS, max_size=3))
    def delete(self, keys: list[str]) -> None:
        self.model.delete(keys)

    @rule(source=KEYS, to=KEYS)  # `target` means something to hypothesis
    def copy(self, source: str, to: str) -> None:
        self.model.copy(source, to)

    @rule(key=KEYS, wanted=st.none() | BYTE_RANGES, several=st.lists(RANGES, max_size=5))
    def read(self, key: str, wanted: ByteRange | None, several: list[Range]) -> None:
        self.model.read(key, wanted, several)

    @rule(key=KEYS, length=st.integers(0, 8))
    def list_some(self, key: str, length: int) -> None:
        self.model.list(key[:length])

    @rule()
    def sync(self) -> None:
        self.model.store.sync()

    @rule()
    def reopen(self) -> None:
        self.model.store = self.reopened(self.model.store)

    @invariant()
    def nothing_is_lost_or_invented(self) -> None:
        self.model.check()
