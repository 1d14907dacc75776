"""The contract of object stores, as tests to inherit.

    class TestMyStore(ObjectStoreContract):
        @pytest.fixture
        def store(self) -> ObjectStore:
            return MyStore(...)                  # writable, empty

The concurrent tests matter most: a store that ignores preconditions passes all the others.
Without pytest: `python -m frazil.testing --store my_package:new_store`.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import ClassVar

import numpy as np

from frazil.errors import InvalidInputError, ObjectNotFoundError, PreconditionFailedError
from frazil.objectstore.protocol import Absent, Always, Blob, Data, Matches, ObjectStore
from frazil.ranges import ByteRange, From, Last, Range, Until
from frazil.testing.checks import parametrize, raises

THREADS = 8
ODD_KEYS = [
    "with space/and+plus",
    "percent/100%25",
    "tag.täg ✓/ref.json",
    "a!b=c:d@e,f;g&h$i'(j)",
    'quote"hash#star*',
    "less<more>ask?[x]^`{y|z}~",
    "back\\slash",
    "tab\tnewline\nnul\0",
    ".hidden/.dotfile",
    "...",
    "trailing.",
    " ",
]


def content(store: ObjectStore, key: str, byte_range: ByteRange | None = None) -> bytes:
    return bytes(store.get(key, byte_range).data)


def keys(store: ObjectStore, prefix: str = "") -> list[str]:
    return sorted(info.key for info in store.list(prefix))


def at_once[T](work: Callable[[int], T], threads: int = THREADS) -> list[T]:
    """Results of `work(0)`, `work(1)`, ... run by as many threads, all let go together."""
    barrier = Barrier(threads)

    def started(number: int) -> T:
        barrier.wait()
        return work(number)

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(started, range(threads)))


def wins(write: Callable[[], object]) -> bool:
    """True if a conditional write was made."""
    try:
        write()
    except PreconditionFailedError:
        return False
    return True


class ReadingContract:
    """Objects come back as they went in."""

    def test_an_object_is_read_as_it_was_written(self, store: ObjectStore) -> None:
        store.put("a/b", b"hello")
        assert content(store, "a/b") == b"hello"

    def test_an_empty_object_is_an_object(self, store: ObjectStore) -> None:
        store.put("empty", b"")
        assert content(store, "empty") == b""
        assert content(store, "empty", Last(3)) == b""
        assert store.head("empty").size_bytes == 0

    def test_a_missing_object_is_an_error(self, store: ObjectStore) -> None:
        store.put("a/b", b"x")
        for read in (store.get, store.head, lambda key: store.get_ranges(key, [Range(0, 1)])):
            for key in ("missing", "a", "a/c", "a/b2"):
                with raises(ObjectNotFoundError) as caught:
                    read(key)
                assert caught.value.key.endswith(key)  # wrappers may have made it longer

    @parametrize(
        ("wanted", "expected"),
        [
            (Range(2, 5), b"234"),
            (Range(8, 99), b"89"),
            (Range(50, 60), b""),
            (Range(3, 3), b""),
            (Range(0, 1 << 62), b"0123456789"),
            (From(7), b"789"),
            (From(99), b""),
            (Last(3), b"789"),
            (Last(0), b""),
            (Last(99), b"0123456789"),
            (Until(4), b"012345"),
            (Until(99), b""),
        ],
    )
    def test_a_range_is_cut_off_at_the_ends(
        self, store: ObjectStore, wanted: ByteRange, expected: bytes
    ) -> None:
        store.put("digits", b"0123456789")
        assert content(store, "digits", wanted) == expected

    def test_many_ranges_come_in_the_order_asked_for(self, store: ObjectStore) -> None:
        whole = np.random.default_rng(7).bytes(300_000)
        store.put("big", whole)
        wanted = [
            Range(299_990, 300_100),
            Range(5, 9),
            Range(5, 9),
            Range(7, 20_000),
            Range(150_000, 150_000),
            Range(100_000, 200_000),
            Range(400_000, 400_001),
            Range(20_000, 20_001),
        ]
        parts = store.get_ranges("big", wanted)
        assert [bytes(part) for part in parts] == [whole[one.start : one.stop] for one in wanted]
        assert store.get_ranges("big", []) == []

    def test_head_tells_size_and_time(self, store: ObjectStore) -> None:
        store.put("first", b"12345")
        store.put("second", b"")
        first, second = store.head("first"), store.head("second")
        assert (first.key, first.size_bytes) == ("first", 5)
        assert abs(second.modified_at_us - first.modified_at_us) < 60_000_000
        assert first in list(store.list())


class WritingContract:
    """Every buffer can be stored, every key is either good or refused."""

    REFUSED_KEYS: ClassVar[frozenset[str]] = frozenset()  # valid, but the store cannot hold them
    TELLS_WHAT_WAS_MISSING: ClassVar[bool] = True  # when deleting; S3 does not

    @parametrize(
        "data",
        [
            bytearray(b"abc"),
            memoryview(b"xabc")[1:],
            np.arange(6, dtype="f8").reshape(2, 3),
            np.arange(6, dtype="f8").reshape(2, 3).T,
            np.zeros((0, 3), "u4"),
            np.arange(20, dtype="u1")[::2],
            np.array(7, "i4"),
        ],
        ids=["bytearray", "memoryview", "floats", "transposed", "empty", "strided", "scalar"],
    )
    def test_any_buffer_is_stored_in_c_order(
        self, store: ObjectStore, data: bytearray | memoryview | np.ndarray
    ) -> None:
        store.put("buffer", data)
        assert content(store, "buffer") == memoryview(data).tobytes()

    def test_changing_a_buffer_later_changes_nothing(self, store: ObjectStore) -> None:
        data = bytearray(b"before")
        store.put("kept", data)
        data[:] = b"after!"
        assert content(store, "kept") == b"before"

    def test_the_last_put_stays(self, store: ObjectStore) -> None:
        for data in (b"long content", b"", b"short"):
            store.put("again", data, when=Always())
            assert content(store, "again") == data
        assert keys(store) == ["again"]

    @parametrize("key", ODD_KEYS)
    def test_an_odd_key_is_a_key(self, store: ObjectStore, key: str) -> None:
        if key in self.REFUSED_KEYS:
            with raises(InvalidInputError):
                store.put(key, b"")
            return
        store.put(key, key.encode())
        assert content(store, key) == key.encode()
        assert store.head(key).key == key
        assert keys(store) == [key]
        assert store.delete([key]) == 1

    @parametrize("key", ["", "/", "/a", "a/", "a//b", ".", "..", "a/../b", "./a", "a/.", "\ud800"])
    def test_what_is_no_key_is_refused(self, store: ObjectStore, key: str) -> None:
        store.put("a/b", b"")
        for use in (
            store.get,
            store.head,
            lambda key: store.put(key, b""),
            lambda key: store.put(key, b"", when=Absent()),
            lambda key: store.get_ranges(key, [Range(0, 1)]),
            lambda key: store.delete([key]),
            lambda key: store.copy(key, "target"),
            lambda key: store.copy("a/b", key),
        ):
            with raises(InvalidInputError):
                use(key)
        assert keys(store) == ["a/b"]

    def test_a_copy_is_an_object_of_its_own(self, store: ObjectStore) -> None:
        store.put("source", b"content")
        store.put("there/already", b"old")
        store.copy("source", "there/already")
        store.copy("source", "new/place")
        store.put("source", b"changed")
        assert content(store, "there/already") == content(store, "new/place") == b"content"
        for missing in ("missing", "there", "there/already/deeper"):
            with raises(ObjectNotFoundError):
                store.copy(missing, "anywhere")
        assert "anywhere" not in keys(store)

    def test_delete_counts_what_it_removed(self, store: ObjectStore) -> None:
        for key in ("a/1", "a/2", "b"):
            store.put(key, b"")
        removed = store.delete(iter(["a/1", "b", "b", "missing", "a", "a/1/deeper"]))
        assert removed == (2 if self.TELLS_WHAT_WAS_MISSING else 5)
        assert store.delete([]) == 0
        assert keys(store) == ["a/2"]

    def test_sync_can_be_called_at_any_time(self, store: ObjectStore) -> None:
        store.sync()
        for number in range(20):
            store.put(f"d{number % 3}/{number}", b"x")
        store.delete(["d0/0"])
        store.sync()
        store.sync()
        assert len(keys(store)) == 19


class ListingContract:
    """A prefix is a string, not a directory."""

    @parametrize(
        ("prefix", "expected"),
        [
            ("", ["a-b", "a/b/c", "a/b/d", "a/bc/e", "ab", "b", "ä/ö"]),
            ("a", ["a-b", "a/b/c", "a/b/d", "a/bc/e", "ab"]),
            ("a/", ["a/b/c", "a/b/d", "a/bc/e"]),
            ("a/b", ["a/b/c", "a/b/d", "a/bc/e"]),
            ("a/b/", ["a/b/c", "a/b/d"]),
            ("a/b/c", ["a/b/c"]),
            ("a/b/c/", []),
            ("a/b/cc", []),
            ("ä/", ["ä/ö"]),
            ("ä/ö", ["ä/ö"]),
            ("missing/", []),
            ("A", []),
        ],
    )
    def test_all_keys_that_start_with_the_prefix_are_listed(
        self, store: ObjectStore, prefix: str, expected: list[str]
    ) -> None:
        for key in ("a/b/c", "a/b/d", "a/bc/e", "a-b", "ab", "b", "ä/ö"):
            store.put(key, key.encode())
        assert keys(store, prefix) == expected

    def test_an_empty_store_lists_nothing(self, store: ObjectStore) -> None:
        assert keys(store) == keys(store, "any/prefix") == []

    @parametrize("prefix", ["/", "../", "a/../", "a//b", "./a"])
    def test_what_begins_no_key_is_refused(self, store: ObjectStore, prefix: str) -> None:
        with raises(InvalidInputError):
            list(store.list(prefix))

    def test_deleting_what_was_listed_does_not_disturb_the_listing(
        self, store: ObjectStore
    ) -> None:
        expected = [f"d{number % 7}/{number:04}" for number in range(300)]
        for key in expected:
            store.put(key, b"")
        seen = []
        for info in store.list():
            seen.append(info.key)
            store.delete([info.key])
        assert sorted(seen) == sorted(expected)
        assert keys(store) == []


class ConditionContract:
    """Conditional writes, one at a time."""

    def test_create_refuses_what_is_there(self, store: ObjectStore) -> None:
        store.put("a/key", b"first", when=Absent())
        with raises(PreconditionFailedError) as caught:
            store.put("a/key", b"second", when=Absent())
        assert caught.value.key.endswith("a/key")  # wrappers may have made it longer
        assert content(store, "a/key") == b"first"
        assert keys(store) == ["a/key"]

    def test_update_needs_the_version_that_is_there(self, store: ObjectStore) -> None:
        first = store.put("key", b"first", when=Absent())
        assert store.get("key").version == first
        second = store.put("key", b"second", when=Matches(first))
        assert second != first
        assert store.get("key").version == second
        for stale in (first, "", "nonsense"):
            with raises(PreconditionFailedError):
                store.put("key", b"third", when=Matches(stale))
        assert content(store, "key") == b"second"

    def test_update_of_a_missing_object_is_refused(self, store: ObjectStore) -> None:
        version = store.put("key", b"", when=Absent())
        store.delete(["key"])
        for missing in ("key", "never/there"):
            with raises(PreconditionFailedError):
                store.put(missing, b"x", when=Matches(version))
        assert keys(store) == []

    def test_an_unconditional_put_changes_the_version(self, store: ObjectStore) -> None:
        version = store.put("key", b"first", when=Absent())
        store.put("key", b"other")
        with raises(PreconditionFailedError):
            store.put("key", b"third", when=Matches(version))
        store.put("key", b"third", when=Matches(store.get("key").version))
        assert content(store, "key") == b"third"

    def test_a_deleted_object_can_be_created_again(self, store: ObjectStore) -> None:
        store.put("key", b"first", when=Absent())
        store.delete(["key"])
        store.put("key", b"second", when=Absent())
        assert content(store, "key") == b"second"


class RereadingContract:
    """Asking again for what is known, in stores that can tell and those that cannot."""

    # Fewer where a put takes its time.
    REPLACED: ClassVar[int] = 100

    def test_what_is_read_again_is_what_is_there(self, store: ObjectStore) -> None:
        store.put("page", b"first")
        known = store.reread("page", None)
        assert bytes(known.data) == b"first"
        again = store.reread("page", known)
        assert (bytes(again.data), again.version) == (b"first", known.version)
        store.put("page", b"other")  # as long as the first
        other = store.reread("page", again)
        assert bytes(other.data) == b"other"
        assert other.version != known.version
        assert bytes(store.reread("page", known).data) == b"other"
        store.delete(["page"])
        with raises(ObjectNotFoundError):
            store.reread("page", other)
        store.put("page", b"first")
        assert bytes(store.reread("page", other).data) == b"first"

    def test_what_was_written_counts_as_known(self, store: ObjectStore) -> None:
        version = store.put("page", b"first", when=Absent())
        known = Blob(b"first", version)
        assert store.reread("page", known).version == version
        store.put("page", b"other", when=Matches(version))
        assert bytes(store.reread("page", known).data) == b"other"

    def test_an_empty_object_can_be_read_again(self, store: ObjectStore) -> None:
        store.put("empty", b"")
        known = store.reread("empty", None)
        assert bytes(store.reread("empty", known).data) == b""

    def test_no_replacement_goes_unnoticed(self, store: ObjectStore) -> None:
        known = None
        for number in range(self.REPLACED):
            page = b"%8d" % number
            store.put("page", page)
            known = store.reread("page", known)
            assert bytes(known.data) == page


class RefreshingContract:
    """Objects made as young as new ones, and deleted only while they are old."""

    def test_a_refreshed_object_is_the_same_and_not_older(self, store: ObjectStore) -> None:
        store.put("a/b", b"content")
        before = store.head("a/b")
        refreshed = store.refresh("a/b")
        assert content(store, "a/b") == b"content"
        assert refreshed == store.head("a/b")
        assert refreshed.size_bytes == before.size_bytes
        assert refreshed.modified_at_us >= before.modified_at_us
        with raises(ObjectNotFoundError):
            store.refresh("a/c")
        assert keys(store) == ["a/b"]

    def test_younger_objects_are_spared_if_the_store_can_tell(self, store: ObjectStore) -> None:
        for key in ("x/young", "x/old"):
            store.put(key, b"")
        latest_us = max(info.modified_at_us for info in store.list("x/"))
        spared = store.delete_older(["x/young", "x/none"], before_us=0)
        assert spared == (("x/young",) if store.capabilities.checks_age else ())
        assert store.delete_older(["x/old"], before_us=latest_us + 1_000_000) == ()
        assert keys(store, "x/") == list(spared)


class RaceContract:
    """Conditional writes, many at a time."""

    # Fewer where losing a race takes its time.
    WRITERS: ClassVar[int] = THREADS
    RACES: ClassVar[int] = 20
    INCREMENTS: ClassVar[int] = 25  # of each writer

    def test_of_many_creators_one_wins(self, store: ObjectStore) -> None:
        for number in range(self.RACES):
            key = f"race/{number}"
            won = at_once(
                lambda thread, key=key: wins(  # type: ignore[misc]  # the loop's variable, bound now
                    lambda: store.put(key, b"%d" % thread * 1000, when=Absent())
                ),
                self.WRITERS,
            )
            assert won.count(True) == 1
            assert content(store, key) == b"%d" % won.index(True) * 1000

    def test_no_increment_of_a_counter_is_lost(self, store: ObjectStore) -> None:
        store.put("counter", b"0", when=Absent())

        def increment(_: int) -> None:
            done = 0
            while done < self.INCREMENTS:
                found = store.get("counter")
                new = b"%d" % (int(bytes(found.data)) + 1)
                version = found.version
                done += wins(lambda: store.put("counter", new, when=Matches(version)))  # noqa: B023 - called at once

        at_once(increment, self.WRITERS)
        assert content(store, "counter") == b"%d" % (self.INCREMENTS * self.WRITERS)

    def test_a_deleted_object_is_not_brought_back_by_an_update(self, store: ObjectStore) -> None:
        for number in range(self.RACES):
            key = f"gone/{number}"
            version = store.put(key, b"old", when=Absent())

            def act(thread: int, key: str = key, version: str = version) -> bool:
                if thread == 0:
                    return store.delete([key]) == 1
                return wins(lambda: store.put(key, b"new", when=Matches(version)))

            deleted, *_ = at_once(act, 3)
            assert deleted
            assert keys(store, key) == []

    def test_readers_see_whole_objects_only(self, store: ObjectStore) -> None:
        versions = [bytes([letter]) * (1000 * letter) for letter in range(1, 60, 7)]
        store.put("page", versions[0])

        def act(thread: int) -> list[Data]:
            if thread:
                return [store.get("page").data for _ in range(100)]
            for number in range(60):
                store.put("page", versions[number % len(versions)])
            return []

        seen = {bytes(data) for part in at_once(act, 3) for data in part}
        assert seen <= set(versions)

    def test_parallel_puts_into_new_places_all_arrive(self, store: ObjectStore) -> None:
        at_once(lambda thread: [store.put(f"n/{i}/{thread}", b"x") for i in range(20)])
        store.sync()
        assert len(keys(store, "n/")) == 20 * THREADS


class ObjectStoreContract(
    ReadingContract,
    WritingContract,
    ListingContract,
    ConditionContract,
    RereadingContract,
    RefreshingContract,
    RaceContract,
):
    """The whole contract; subclasses provide a fixture `store`, writable and empty."""
