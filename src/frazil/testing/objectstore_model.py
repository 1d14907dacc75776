"""An object store beside a dict: whatever is done to both, they agree.

class MyMachine(ObjectStoreMachine):
    def new_store(self) -> ObjectStore:
        return MyStore(...)

TestMyStore = MyMachine.TestCase
"""

from abc import abstractmethod

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from frazil.errors import ObjectNotFoundError, PreconditionFailedError
from frazil.objectstore.protocol import Absent, Always, Blob, Matches, ObjectStore, reread
from frazil.ranges import ByteRange, From, Last, Range, Until, resolve

# Names of directories begin with `d`, so that no key is the parent of another.
_NAMES = ["a", "b", "ä~", "x y", ".c"]
KEYS = st.builds(
    lambda above, name: "/".join([*above, name]),
    st.lists(st.sampled_from(["d", "d%", "dé"]), max_size=2),
    st.sampled_from(_NAMES),
)
CONTENTS = st.binary(max_size=40)
_POSITIONS = st.integers(0, 50)
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
        self.store = self.new_store()
        self.model: dict[str, bytes] = {}
        self.known: dict[str, Blob] = {}  # as last read
        self.stale: dict[str, str] = {}  # versions of contents that the key no longer has

    @rule(key=KEYS, data=CONTENTS)
    def put(self, key: str, data: bytes) -> None:
        self.store.put(key, data, when=Always())
        self.model[key] = data

    @rule(key=KEYS, data=CONTENTS)
    def create(self, key: str, data: bytes) -> None:
        if key in self.model:
            with pytest.raises(PreconditionFailedError):
                self.store.put(key, data, when=Absent())
        else:
            self.store.put(key, data, when=Absent())
            self.model[key] = data

    @rule(key=KEYS, data=CONTENTS)
    def update(self, key: str, data: bytes) -> None:
        if key not in self.model:
            with pytest.raises(PreconditionFailedError):
                self.store.put(key, data, when=Matches(self.stale.get(key, "none")))
            return
        before = self.store.get(key).version
        after = self.store.put(key, data, when=Matches(before))
        assert after == self.store.get(key).version
        if data != self.model[key]:
            assert after != before
            with pytest.raises(PreconditionFailedError):
                self.store.put(key, b"stale", when=Matches(before))
        self.model[key] = data

    @rule(keys=st.lists(KEYS, max_size=3))
    def delete(self, keys: list[str]) -> None:
        present = self.model.keys() & set(keys)
        for key in present:
            self.stale[key] = self.store.get(key).version
            del self.model[key]
        assert self.store.delete(keys) == len(present)

    @rule(source=KEYS, to=KEYS)  # `target` means something to hypothesis
    def copy(self, source: str, to: str) -> None:
        if source in self.model:
            self.store.copy(source, to)
            self.model[to] = self.model[source]
        else:
            with pytest.raises(ObjectNotFoundError):
                self.store.copy(source, to)

    @rule(key=KEYS, wanted=st.none() | BYTE_RANGES, several=st.lists(RANGES, max_size=5))
    def read(self, key: str, wanted: ByteRange | None, several: list[Range]) -> None:
        if key not in self.model:
            with pytest.raises(ObjectNotFoundError):
                self.store.get(key, wanted)
            return
        data = self.model[key]
        part = resolve(wanted, len(data))
        assert bytes(self.store.get(key, wanted).data) == data[part.start : part.stop]
        self.known[key] = reread(self.store, key, self.known.get(key))
        assert bytes(self.known[key].data) == data
        parts = self.store.get_ranges(key, several)
        assert [bytes(one) for one in parts] == [data[one.start : one.stop] for one in several]
        assert self.store.head(key).size_bytes == len(data)

    @rule(key=KEYS, length=st.integers(0, 8))
    def list_some(self, key: str, length: int) -> None:
        prefix = key[:length]
        expected = {one: len(data) for one, data in self.model.items() if one.startswith(prefix)}
        found = list(self.store.list(prefix))
        assert {info.key: info.size_bytes for info in found} == expected
        assert len(found) == len(expected)

    @rule()
    def sync(self) -> None:
        self.store.sync()

    @rule()
    def reopen(self) -> None:
        self.store = self.reopened(self.store)

    @invariant()
    def nothing_is_lost_or_invented(self) -> None:
        assert sorted(info.key for info in self.store.list()) == sorted(self.model)
