"""An object store beside a dict: after any sequence of operations they hold the same.

`objectstore_model` drives it with hypothesis, `random_operations` with a seed and nothing else.
"""

import random
from collections.abc import Callable, Sequence

from frazil.errors import ObjectNotFoundError, PreconditionFailedError
from frazil.objectstore.protocol import Absent, Always, Blob, Matches, ObjectStore
from frazil.ranges import ByteRange, From, Last, Range, Until, resolve
from frazil.testing.checks import raises

# Names of directories begin with `d`, so that no key is the parent of another.
DIRECTORIES = ["d", "d%", "dé"]
NAMES = ["a", "b", "ä~", "x y", ".c"]
MAX_POSITION = 50


class StoreModel:
    """Does everything to the store and to a dict, and compares the outcomes by assertions."""

    def __init__(self, store: ObjectStore) -> None:
        self.store = store
        self.contents: dict[str, bytes] = {}
        self.cached: dict[str, Blob] = {}  # as last read
        self.stale: dict[str, str] = {}  # versions of contents that the key no longer has

    def put(self, key: str, data: bytes) -> None:
        self.store.put(key, data, when=Always())
        self.contents[key] = data

    def create(self, key: str, data: bytes) -> None:
        if key in self.contents:
            with raises(PreconditionFailedError):
                self.store.put(key, data, when=Absent())
        else:
            self.store.put(key, data, when=Absent())
            self.contents[key] = data

    def update(self, key: str, data: bytes) -> None:
        if key not in self.contents:
            with raises(PreconditionFailedError):
                self.store.put(key, data, when=Matches(self.stale.get(key, "none")))
            return
        before = self.store.get(key).version
        after = self.store.put(key, data, when=Matches(before))
        assert after == self.store.get(key).version
        if data != self.contents[key]:
            assert after != before
            with raises(PreconditionFailedError):
                self.store.put(key, b"stale", when=Matches(before))
        self.contents[key] = data

    def delete(self, keys: Sequence[str], *, counts_missing: bool = False) -> None:
        present = self.contents.keys() & set(keys)
        for key in present:
            self.stale[key] = self.store.get(key).version
            del self.contents[key]
        removed = self.store.delete(keys)
        assert removed == len(present) or (counts_missing and removed >= len(present))

    def copy(self, source: str, target: str) -> None:
        if source in self.contents:
            self.store.copy(source, target)
            self.contents[target] = self.contents[source]
        else:
            with raises(ObjectNotFoundError):
                self.store.copy(source, target)

    def read(self, key: str, wanted: ByteRange | None, several: Sequence[Range]) -> None:
        if key not in self.contents:
            with raises(ObjectNotFoundError):
                self.store.get(key, wanted)
            return
        data = self.contents[key]
        part = resolve(wanted, len(data))
        assert bytes(self.store.get(key, wanted).data) == data[part.start : part.stop]
        self.cached[key] = self.store.reread(key, self.cached.get(key))
        assert bytes(self.cached[key].data) == data
        parts = self.store.get_ranges(key, several)
        assert [bytes(one) for one in parts] == [data[one.start : one.stop] for one in several]
        assert self.store.head(key).size_bytes == len(data)

    def list(self, prefix: str) -> None:
        expected = {key: len(data) for key, data in self.contents.items() if key.startswith(prefix)}
        infos = [*self.store.list(prefix)]
        assert {info.key: info.size_bytes for info in infos} == expected
        assert len(infos) == len(expected)

    def check(self) -> None:
        """Nothing is lost or invented."""
        assert sorted(info.key for info in self.store.list()) == sorted(self.contents)


def random_operations(
    store: ObjectStore, *, seed: int, count: int, counts_missing: bool = False
) -> None:
    """Makes `count` random operations on an empty store. The same seed makes the same ones."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    model = StoreModel(store)

    def key() -> str:
        above = [chance.choice(DIRECTORIES) for _ in range(chance.randrange(3))]
        return "/".join([*above, chance.choice(NAMES)])

    def data() -> bytes:
        return chance.randbytes(chance.randrange(41))

    def span() -> Range:
        return Range(*sorted((chance.randint(0, MAX_POSITION), chance.randint(0, MAX_POSITION))))

    def byte_range() -> ByteRange | None:
        at = chance.randint(0, MAX_POSITION)
        return chance.choice([None, span(), From(at), Last(at), Until(at)])

    operations: list[Callable[[], object]] = [
        lambda: model.put(key(), data()),
        lambda: model.create(key(), data()),
        lambda: model.update(key(), data()),
        lambda: model.delete(
            [key() for _ in range(chance.randrange(4))], counts_missing=counts_missing
        ),
        lambda: model.copy(key(), key()),
        lambda: model.read(key(), byte_range(), [span() for _ in range(chance.randrange(6))]),
        lambda: model.list(key()[: chance.randrange(9)]),
        store.sync,
    ]
    for _ in range(count):
        chance.choice(operations)()
        model.check()
