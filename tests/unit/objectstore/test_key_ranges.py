"""Listings in parts: together they are the whole, whatever the names."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.ids import ALPHABET, format_ids
from frazil.maintenance import inventory
from frazil.maintenance.inventory import FileKind, StoredInventory, folder_ranges, list_files
from frazil.maintenance.verify import stored_objects as listing
from frazil.objectstore.listing import (
    EVERYTHING,
    KeyRange,
    gather_listed,
    key_ranges,
    list_range,
)
from frazil.objectstore.memory import MemoryStore
from frazil.objectstore.protocol import Capabilities, ObjectInfo
from frazil.objectstore.wrappers import Counting


class InOrder(MemoryStore):
    """A store that lists ranges, as S3 does."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = list[KeyRange]()

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(lists_in_order=True)

    def list_range(self, start: str, stop: str | None) -> Iterator[ObjectInfo]:
        keys = KeyRange(start, stop)
        self.asked.append(keys)
        return (info for info in self.list() if info.key in keys)


def filled(names: list[str]) -> InOrder:
    store = InOrder()
    for name in names:
        store.put(name, name.encode())
    return store


NAMES = st.builds(
    lambda folder, name: folder + name,
    st.sampled_from(["chunks/", "chunks", "manifests/", "snapshots/", "", "zz"]),
    st.text("09AZaz~é-.", min_size=1, max_size=4).filter(lambda name: set(name) != {"."}),
)


@given(st.lists(NAMES, max_size=30, unique=True), st.integers(1, 5), st.integers(1, 8))
def test_every_object_is_listed_once(names: list[str], concurrent: int, first: int) -> None:
    store = filled(names)
    ranges = listing.listing_ranges(store)
    assert len(ranges) == 4 * len(ALPHABET) + 1
    parts = gather_listed(store, "", ranges, list, concurrent=concurrent, first=first)
    assert sorted(info.key for part in parts for info in part) == sorted(names)
    assert sorted(
        info.key for each in ranges for info in list_range(Counting(store, []), each)
    ) == sorted(names)


def test_a_store_that_lists_folders_as_a_whole_has_one_range() -> None:
    store = MemoryStore()
    store.put("chunks/a", b"")
    assert key_ranges(store, ["b", "c"]) == (EVERYTHING,)
    assert [info.key for info in list_range(store, KeyRange("b", "d"))] == ["chunks/a"]
    assert list(list_range(store, KeyRange("d", None))) == []


def test_few_files_are_listed_by_one_request_and_many_by_several(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = ["chunks/" + letter * 19 + "0" for letter in ALPHABET] + [
        "chunks/odd",
        "chunks0",
        "manifests/x",
    ]
    store = filled(names)
    found = list_files(StoredInventory(store), FileKind.CHUNK)
    assert (len(found), store.asked) == (32, [])
    monkeypatch.setattr(inventory, "PIECE", 3)
    for concurrent in (1, 2, 40):
        again = list_files(StoredInventory(store, concurrent), FileKind.CHUNK)
        assert format_ids(again.ids) == format_ids(found.ids)
        assert again.size_bytes.tolist() == found.size_bytes.tolist()
    assert {each.start for each in store.asked} == {f"chunks/{letter}" for letter in ALPHABET[2:]}
    assert folder_ranges(store, "chunks/")[-1] == KeyRange("chunks/Z", "chunks0")


def test_a_repository_is_listed_in_parts_as_it_is_as_a_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = [f"{folder}{letter * 19}0" for folder in listing.FOLDERS for letter in ALPHABET]
    store = filled(
        [*names, "repo", "chunks/odd", "what", "refs/branch.main/ref.json", "overwritten/x"]
    )
    whole, parts = list[object](), list[object]()
    expected = listing.list_everything(store, whole)  # type: ignore[arg-type]  # compared only
    monkeypatch.setattr(listing, "_PIECE", 5)
    found = listing.list_everything(store, parts)  # type: ignore[arg-type]  # compared only
    assert len(store.asked) > 100
    assert set(parts) == set(whole)
    assert {str(each) for each in whole if "what" in str(each)}
    for folder in listing.FOLDERS:
        assert found.names(folder) == expected.names(folder)
    assert (found.sizes, found.refs, found.overwritten) == (
        expected.sizes, expected.refs, expected.overwritten
    )  # fmt: skip
    assert found.total_files == len(list(store.list()))
    assert found.total_bytes == expected.total_bytes
