"""Local files of others: their parts, their versions, and nothing that is elsewhere."""

import os
import threading
from pathlib import Path

import obstore
import pytest
from obstore.store import LocalStore as RustLocalStore

from frazil.errors import InvalidInputError, ObjectChangedError, ObjectNotFoundError
from frazil.objectstore.local.local_source import LocalSource
from frazil.objectstore.protocol import NotModifiedAfter, SameETag
from frazil.ranges import Range

CONTENT = bytes(range(256)) * 4


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    (folder / "sub").mkdir(parents=True)
    (folder / "a").write_bytes(CONTENT)
    return folder


@pytest.fixture
def source(folder: Path) -> LocalSource:
    return LocalSource((str(folder),))


def key(path: Path) -> str:
    return str(path).removeprefix("/")


def test_parts_come_in_the_order_asked_for_and_end_where_the_file_does(
    source: LocalSource, folder: Path
) -> None:
    wanted = [Range(5, 9), Range(0, 2), Range(1000, 2**63), Range(2**64, 2**65), Range(3, 3)]
    parts = source.read(key(folder / "a"), wanted)
    assert parts == [CONTENT[5:9], CONTENT[:2], CONTENT[1000:], b"", b""]
    assert source.size_bytes(key(folder / "a")) == len(CONTENT)


@pytest.mark.parametrize("name", ["none", "sub", "a/b", "a\0b", "sub/none/x"])
def test_what_is_no_file_is_not_found(source: LocalSource, folder: Path, name: str) -> None:
    with pytest.raises(ObjectNotFoundError):
        source.read(f"{key(folder)}/{name}", [Range(0, 1)])


def test_a_named_pipe_is_no_file_and_nobody_waits_for_it(source: LocalSource, folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    with pytest.raises(ObjectNotFoundError):
        source.read(key(folder / "pipe"), [Range(0, 1)])


@pytest.mark.parametrize(
    ("expected", "found", "is_match"),
    [
        ('"a,b"', "a,b", True),
        ("a,b", "a,b", True),
        ('x, "a,b"', "a,b", True),
        ('"a,b"', "a", False),
        ('W/"a"', 'W/"a', True),  # a weak one as an object store's client cuts it
        ('"x", W/"a"', 'W/"a"', True),
        ('"a"', 'W/"a"', False),
        ('W/"a"', "a", False),
        ("", "", True),
        ("*", "", True),
        ('"a", "b"', "", False),
        (", ,", "", False),
    ],
)
def test_an_expected_etag_may_be_a_list(expected: str, found: str, *, is_match: bool) -> None:
    assert SameETag(expected).matches(found) is is_match


def test_etags_are_those_of_object_store(source: LocalSource, folder: Path) -> None:
    found = obstore.head(RustLocalStore(str(folder)), "a")["e_tag"]
    assert found is not None
    bare = found.strip('"')
    for etag in (found, bare, "*", f"other, {found}", f'{found},"x,y"', f'"x", {bare}', " * "):
        assert source.read(key(folder / "a"), [Range(0, 1)], expected=SameETag(etag)) == [b"\0"]
    os.utime(folder / "a", (1e9, 1e9))
    with pytest.raises(ObjectChangedError) as caught:
        source.read(key(folder / "a"), [Range(0, 1)], expected=SameETag(found))
    assert caught.value.kind == "virtual-chunk-modified"
    assert caught.value.expected == f"ETag {found}"
    now = obstore.head(RustLocalStore(str(folder)), "a")["e_tag"]
    assert now is not None
    assert caught.value.found == f"ETag {now.strip(chr(34))}"


@pytest.mark.parametrize(("fraction_ns", "seconds", "fine"), [
    (0, 1000, True), (999_999_999, 1000, True), (0, 999, False), (0, 1001, True),
])  # fmt: skip
def test_times_are_compared_in_whole_seconds(
    source: LocalSource, folder: Path, fraction_ns: int, seconds: int, *, fine: bool
) -> None:
    modified = 1000 * 10**9 + fraction_ns
    os.utime(folder / "a", ns=(modified, modified))
    expected = NotModifiedAfter(seconds)
    if fine:
        assert source.read(key(folder / "a"), [Range(0, 1)], expected=expected) == [b"\0"]
    else:
        with pytest.raises(ObjectChangedError, match="no modification after 999"):
            source.read(key(folder / "a"), [Range(0, 1)], expected=expected)


@pytest.mark.parametrize("name", ["../secret", "sub/../../secret", "link", "folder/secret"])
def test_nothing_is_read_from_elsewhere(
    source: LocalSource, folder: Path, tmp_path: Path, name: str
) -> None:
    (tmp_path / "secret").write_text("secret")
    (folder / "link").symlink_to(tmp_path / "secret")
    (folder / "folder").symlink_to(tmp_path)
    with pytest.raises(InvalidInputError) as caught:
        source.read(f"{key(folder)}/{name}", [Range(0, 6)])
    assert caught.value.kind == "unauthorized-virtual-chunk-container"


def test_a_neighbour_whose_name_begins_alike_is_elsewhere(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "files-of-others").mkdir()
    (tmp_path / "files-of-others" / "a").write_text("secret")
    with pytest.raises(InvalidInputError):
        LocalSource((str(folder),)).read(key(tmp_path / "files-of-others" / "a"), [Range(0, 1)])


def test_links_inside_and_to_another_allowed_place_are_followed(
    folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "archive").mkdir()
    (tmp_path / "archive" / "b").write_bytes(b"archived")
    (folder / "latest").symlink_to("a")
    (folder / "b").symlink_to(tmp_path / "archive" / "b")
    (tmp_path / "alias").symlink_to(folder)
    both = LocalSource((str(tmp_path / "alias"), str(tmp_path / "archive")))
    assert both.read(key(tmp_path / "alias" / "latest"), [Range(0, 2)]) == [CONTENT[:2]]
    assert both.read(key(folder / "b"), [Range(0, 4)]) == [b"arch"]


def test_a_file_replaced_while_it_is_read_stays_as_it_was(
    source: LocalSource, folder: Path
) -> None:
    stop = threading.Event()
    versions = [bytes([number]) * 4096 for number in range(4)]
    (folder / "v").write_bytes(versions[0])

    def replace() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            (folder / "new").write_bytes(versions[number % 4])
            (folder / "new").rename(folder / "v")

    thread = threading.Thread(target=replace)
    thread.start()
    try:
        for _ in range(300):
            parts = source.read(key(folder / "v"), [Range(0, 10), Range(4000, 4096)])
            assert len(set(b"".join(map(bytes, parts)))) == 1
    finally:
        stop.set()
        thread.join()
