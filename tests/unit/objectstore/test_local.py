"""What only a filesystem can do, or do wrong."""

import errno
import os
import pickle
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from frazil.clock import system_clock
from frazil.errors import (
    InvalidInputError,
    ObjectNotFoundError,
    PreconditionFailedError,
    StorageError,
)
from frazil.objectstore import ABSENT, LocalStore, Matches, ObjectStore
from frazil.objectstore.local.local_directories import exclusive
from frazil.objectstore.local.local_files import file_mark
from frazil.objectstore.protocol import is_older
from frazil.ranges import Range
from frazil.testing.objectstore import ObjectStoreContract, at_once, content, keys


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def store(root: Path) -> LocalStore:
    return LocalStore(root)


class TestWithoutHardLinks(ObjectStoreContract):
    """Some filesystems have none; creation then goes through the lock."""

    @pytest.fixture
    def store(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
        def refuse(*_: object, **__: object) -> None:
            raise PermissionError(1, "Operation not permitted")

        monkeypatch.setattr(os, "link", refuse)
        return LocalStore(tmp_path / "fat", fsync=False)


def test_only_a_put_makes_the_root(store: LocalStore, root: Path) -> None:
    assert keys(store) == []
    assert store.delete(["a/b"]) == 0
    assert store.collect_leftovers(0) == 0
    store.sync()
    with pytest.raises(ObjectNotFoundError):
        store.get("a")
    with pytest.raises(PreconditionFailedError):
        store.put("a", b"", when=Matches("x"))
    assert not root.exists()
    store.put("a/b", b"")
    assert [path.name for path in root.iterdir()] == ["a"]


def test_a_relative_root_does_not_move_with_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = LocalStore("here")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    store.put("a", b"")
    assert (tmp_path / "here" / "a").exists()


def test_the_root_of_the_filesystem_is_no_store() -> None:
    with pytest.raises(InvalidInputError):
        LocalStore("/")


def test_keys_are_listed_in_order(store: LocalStore) -> None:
    for key in ("a/b", "a-b", "a.b", "ab", "a/b.c", "é", "z", "~"):
        store.put(key, b"")
    listed = [info.key for info in store.list()]
    assert listed == sorted(listed)


def test_names_on_disk_are_percent_encoded(store: LocalStore, root: Path) -> None:
    store.put("refs/tag.täg ✓/a~b#1!=:", b"")
    assert (root / "refs" / "tag.t%C3%A4g %E2%9C%93" / "a%7Eb%231!=:").exists()


@pytest.mark.parametrize(
    "name",
    [
        "x#1",  # a temporary file of the reference
        ".frazil-tmp#00000000000000000001",
        "backup~",
        "täg",
        "%c3%a4",  # lower case: not as we would write it
        "%C3",
        "%41",
        "%2E%2E",
        "a%2Fb",
        os.fsdecode(b"\xff\xfe"),
    ],
)
def test_a_file_that_no_key_leads_to_is_not_listed(
    store: LocalStore, root: Path, name: str
) -> None:
    store.put("kept", b"")
    (root / name).write_bytes(b"")
    assert keys(store) == ["kept"]


def test_the_lock_file_is_neither_listed_nor_a_key(store: LocalStore, root: Path) -> None:
    version = store.put("a", b"1", when=ABSENT)
    store.put("a", b"2", when=Matches(version))
    assert (root / ".frazil.lock").exists()
    assert keys(store) == keys(store, "a") == ["a"]
    assert keys(store, ".fra") == []
    for use in (store.get, lambda key: store.put(key, b""), lambda key: store.delete([key])):
        with pytest.raises(InvalidInputError):
            use(".frazil.lock")
    store.put("below/.frazil.lock", b"an object like any other")
    assert keys(store, "below/") == ["below/.frazil.lock"]


def test_empty_directories_hold_no_objects(store: LocalStore, root: Path) -> None:
    store.put("a", b"")
    (root / "refs" / "branch.gone").mkdir(parents=True)
    assert keys(store) == ["a"]
    assert keys(store, "refs/") == []


def test_an_object_cannot_be_the_parent_of_another(store: LocalStore) -> None:
    store.put("a", b"whole")
    for when in (ABSENT, Matches("x")):
        with pytest.raises((StorageError, PreconditionFailedError)):
            store.put("a/b", b"", when=when)
    with pytest.raises(StorageError, match="a part of its path is an object"):
        store.put("a/b/c", b"")
    with pytest.raises(ObjectNotFoundError):
        store.get("a/b/c")
    assert store.delete(["a/b", "a/b/c"]) == 0
    assert keys(store, "a/") == []
    assert content(store, "a") == b"whole"


def test_a_directory_cannot_become_an_object(store: LocalStore) -> None:
    store.put("a/b", b"")
    for write in (
        lambda: store.put("a", b""),
        lambda: store.put("a", b"", when=ABSENT),
        lambda: store.copy("a/b", "a"),
    ):
        with pytest.raises(StorageError, match="a directory that holds other objects"):
            write()
    with pytest.raises(PreconditionFailedError):
        store.put("a", b"", when=Matches("x"))
    assert store.delete(["a"]) == 0
    assert keys(store) == ["a/b"]


def test_a_root_that_is_a_file_is_an_error_when_writing(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for root in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(StorageError):
            LocalStore(root).put("a", b"")


def test_a_name_too_long_is_said_to_be(store: LocalStore) -> None:
    with pytest.raises(StorageError, match="too long"):
        store.put("x" * 300, b"")
    with pytest.raises(StorageError, match="too long"):
        store.put("d/" + "ä" * 100, b"", when=ABSENT)
    with pytest.raises(StorageError, match="too long"):
        store.get("x" * 300)
    store.put("x" * 255, b"the longest")
    assert content(store, "x" * 255) == b"the longest"


def test_symbolic_links_below_the_root_are_not_followed(store: LocalStore, root: Path) -> None:
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"secret")
    store.put("real/a", b"")
    (root / "directory").symlink_to(outside)
    (root / "file").symlink_to(outside / "secret")
    (root / "real" / "dangling").symlink_to(outside / "new")
    for key in ("directory/secret", "file"):
        with pytest.raises(StorageError, match="symbolic link"):
            store.get(key)
        with pytest.raises(StorageError, match="symbolic link"):
            store.get_ranges(key, [Range(0, 1)])
        with pytest.raises(StorageError):
            store.head(key)
        with pytest.raises(StorageError):
            store.copy(key, "copied")
    for key in ("directory/new", "directory/deeper/new"):
        with pytest.raises(StorageError, match="symbolic link"):
            store.put(key, b"")
    with pytest.raises(StorageError, match="symbolic link"):
        store.delete(["directory/secret"])
    with pytest.raises(StorageError, match="symbolic link"):
        keys(store, "directory/")
    assert keys(store) == ["real/a"]
    store.put("real/dangling", b"replaces the link")
    assert [path.name for path in outside.iterdir()] == ["secret"]


def test_a_root_behind_a_symbolic_link_is_fine(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "disk")
    LocalStore(tmp_path / "link" / "root").put("a/b", b"x")
    assert keys(LocalStore(tmp_path / "disk" / "root")) == ["a/b"]


def test_directories_that_vanish_are_made_again(store: LocalStore, root: Path) -> None:
    for when in (ABSENT, ABSENT, ABSENT):
        store.put("a/b/c", b"x", when=when)
        store.put("a/d", b"x")
        (root / "a" / "b" / "c").unlink()
        (root / "a" / "b").rmdir()
        (root / "a" / "d").unlink()
        (root / "a").rmdir()
    store.sync()  # of files that are gone


def test_stale_temporary_files_are_collected_by_age(root: Path) -> None:
    now_us = time.time_ns() // 1000
    store = LocalStore(root, clock=lambda: now_us)
    store.put("a/b", b"")
    old, young, foreign = (
        root / "a" / name for name in (".frazil-tmp#1", ".frazil-tmp#2", ".frazil-tmp#x")
    )
    for path, age_s in ((old, 7200), (young, 60), (foreign, 7200)):
        path.write_bytes(b"")
        os.utime(path, (now_us / 1e6 - age_s,) * 2)
    assert keys(store) == ["a/b"]
    assert store.collect_leftovers(3600) == 1
    assert [old.exists(), young.exists(), foreign.exists()] == [False, True, True]


def test_a_failing_write_leaves_nothing_behind(root: Path) -> None:
    script = (
        "import resource, sys\n"
        "from frazil.errors import StorageError\n"
        "from frazil.objectstore import ABSENT, LocalStore\n"
        "store = LocalStore(sys.argv[1])\n"
        "store.put('kept', b'old')\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "for key, when in (('kept', {}), ('new', {'when': ABSENT})):\n"
        "    try:\n"
        "        store.put(key, b'x' * 5000, **when)\n"
        "    except StorageError as error:\n"
        "        print(error)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script, str(root)], check=True, capture_output=True, text=True
    )
    assert ended.stdout.count("the filesystem does not take files that large") == 2
    assert [path.name for path in root.iterdir()] == ["kept"]
    assert (root / "kept").read_bytes() == b"old"


def test_a_pickled_store_is_the_same_place(store: LocalStore) -> None:
    store.put("a", b"x")
    again = pickle.loads(pickle.dumps(store))
    assert content(again, "a") == b"x"
    assert again.root == store.root


def test_what_is_gone_is_gone_for_every_instance(store: LocalStore, root: Path) -> None:
    other = LocalStore(root)
    version = store.put("a", b"1", when=ABSENT)
    other.put("a", b"2", when=Matches(version))
    with pytest.raises(PreconditionFailedError):
        store.put("a", b"3", when=Matches(version))
    assert store.get("a").version == other.get("a").version


def test_what_ends_the_life_of_a_name_waits_for_the_lock(store: LocalStore, root: Path) -> None:
    """Otherwise it could happen between a compare and its swap, which would undo it."""
    versions = {key: store.put(key, b"old", when=ABSENT) for key in "abcd"}
    waiting = [
        threading.Thread(target=lambda: store.put("a", b"new")),
        threading.Thread(target=lambda: store.copy("d", "b")),
        threading.Thread(target=lambda: store.put("c", b"new", when=Matches(versions["c"]))),
        threading.Thread(target=lambda: store.delete(["d"])),
    ]
    with exclusive(str(root / ".frazil.lock")):
        for thread in waiting:
            thread.start()
        for thread in waiting:
            thread.join(0.1)
        assert all(thread.is_alive() for thread in waiting)
        assert [content(store, key) for key in "abcd"] == [b"old"] * 4  # readers do not wait
        store.put("new", b"", when=ABSENT)  # nor do creators
        store.put("newer", b"")
    for thread in waiting:
        thread.join(10)
    assert keys(store) == ["a", "b", "c", "new", "newer"]
    assert [content(store, key) for key in "abc"] == [b"new", b"old", b"new"]


def test_a_named_pipe_is_no_object(store: LocalStore, root: Path) -> None:
    store.put("a", b"")
    os.mkfifo(root / "pipe")
    assert keys(store) == ["a"]
    for read in (store.get, store.head):  # at once, and not when somebody writes into it
        with pytest.raises(ObjectNotFoundError):
            read("pipe")


def test_a_waiter_is_not_fooled_by_a_lock_file_that_was_replaced(tmp_path: Path) -> None:
    """As when somebody removes a repository and makes a new one in its place."""
    path = str(tmp_path / "lock")
    seen: list[str] = []

    def wait() -> None:
        with exclusive(path):
            seen.append("waiter")

    with exclusive(path):
        waiter = threading.Thread(target=wait)
        waiter.start()
        time.sleep(0.05)
        Path(path).unlink()
        successor = exclusive(path)
        successor.__enter__()
    time.sleep(0.05)
    assert seen == []  # it holds the old file, which is worth nothing, and waits for the new one
    successor.__exit__(None, None, None)
    waiter.join(60)
    assert seen == ["waiter"]


def test_a_child_forked_under_the_lock_does_not_keep_it(tmp_path: Path) -> None:
    script = (
        "import os, sys, time\n"
        "from frazil.objectstore.local.local_directories import exclusive\n"
        "with exclusive(sys.argv[1]):\n"
        "    child = os.fork()\n"
        "    if not child:\n"
        "        time.sleep(200)\n"
        "        os._exit(0)\n"
        "began = time.monotonic()\n"
        "with exclusive(sys.argv[1]):\n"
        "    pass\n"
        "os.kill(child, 9)\n"
        "os.waitpid(child, 0)\n"
        "sys.exit(time.monotonic() - began > 100)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "lock")], check=True, timeout=300)


def test_no_descriptor_stays_open(store: LocalStore) -> None:
    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    before = descriptors()
    version = store.put("a/b", b"x", when=ABSENT)
    store.put("a/b", b"y", when=Matches(version))
    store.put("a/c", b"z")
    store.copy("a/c", "a/d")
    store.sync()
    store.get_ranges("a/c", [Range(0, 1)])
    next(iter(store.list()))
    for fails in (
        lambda: store.get("a"),
        lambda: store.get("missing"),
        lambda: store.put("a", b""),
        lambda: store.put("a/b", b"", when=Matches(version)),
    ):
        with pytest.raises(StorageError):
            fails()
    assert descriptors() == before


def test_what_is_kept_stays_when_its_first_name_gets_another_content(
    store: LocalStore, root: Path
) -> None:
    version = store.put("a", b"1", when=ABSENT)
    os.utime(root / "a", (1, 1))
    store.put("below/x", b"")
    assert store.link("a", "below/b")
    assert store.head("below/b").modified_at_us > 1_000_000  # as old as the call
    store.put("a", b"2", when=Matches(version))
    assert (content(store, "a"), content(store, "below/b")) == (b"2", b"1")
    store.put("below/b", b"3")
    store.delete(["below/b"])
    assert content(store, "a") == b"2"


def test_what_cannot_be_kept_is_said_to_be(
    store: LocalStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not store.link("a", "b")
    store.put("a", b"")
    assert not store.link("a", "missing/b")
    store.put("b", b"")
    with pytest.raises(StorageError):
        store.link("a", "b")

    def no_links(*_: object, **__: object) -> None:
        raise OSError(errno.EOPNOTSUPP, "no hard links here")

    monkeypatch.setattr(os, "link", no_links)
    assert not store.link("a", "c")
    assert not (root / "c").exists()


def test_the_content_stands_for_its_version(store: LocalStore) -> None:
    store.put("a", b"1", when=ABSENT)
    store.put("a", b"2", when=Matches("not looked at", b"1"))
    with pytest.raises(PreconditionFailedError):
        store.put("a", b"3", when=Matches("nor is this", b"1"))
    assert content(store, "a") == b"2"


def test_a_file_is_recognised_once_the_clock_of_the_disk_has_moved_on(root: Path) -> None:
    ahead_us = 0
    store = LocalStore(root, clock=lambda: system_clock() + ahead_us)
    store.put("page", b"first")
    new = store.reread("page", None)
    assert store.reread("page", new) is not new  # another could yet be made in the same tick
    ahead_us = 3_000_000
    known = store.reread("page", new)
    assert known is not new
    assert store.reread("page", known) is known
    store.put("page", b"other")
    other = store.reread("page", known)
    assert bytes(other.data) == b"other"
    assert store.reread("page", other) is other


def test_a_file_that_was_changed_in_place_is_read_again(root: Path) -> None:
    """By other programs: frazil never does."""
    store = LocalStore(root, clock=lambda: system_clock() + 3_000_000)
    store.put("page", b"first")
    known = store.reread("page", None)
    time.sleep(0.05)  # longer than a tick
    (root / "page").write_bytes(b"other")
    assert bytes(store.reread("page", known).data) == b"other"


@pytest.mark.parametrize(
    ("made_ns", "settling_ns"),
    [(1_700_000_000_123_456_789, 100_000_000), (1_700_000_000_000_000_000, 2_000_000_000)],
)
def test_clocks_that_count_seconds_take_longer_to_move_on(made_ns: int, settling_ns: int) -> None:
    def status() -> os.stat_result:
        fields = {"st_dev": 1, "st_ino": 2, "st_size": 3, "st_mtime_ns": 4, "st_ctime_ns": made_ns}
        return cast("os.stat_result", SimpleNamespace(**fields))

    settled_us = -(-(made_ns + settling_ns) // 1000)
    assert file_mark(status(), now_us=settled_us - 1) is None
    assert file_mark(status(), now_us=settled_us) == (1, 2, 3, 4, made_ns)


def test_a_file_from_the_future_is_not_recognised() -> None:
    """Of a server whose clock is ahead of ours, or of before ours was put back."""
    found = os.lstat(__file__)
    assert file_mark(found, now_us=found.st_ctime_ns // 1000 - 3_600_000_000) is None


def test_a_file_that_is_refreshed_while_it_is_deleted_stays_or_is_reported_gone(
    tmp_path: Path,
) -> None:
    """A collector compares the age and unlinks in one step: no refresh is lost in between."""
    store = LocalStore(tmp_path, fsync=False)
    now_us = system_clock()
    for number in range(40):
        key = f"chunks/{number}"
        store.put(key, b"x")
        os.utime(tmp_path / key, (now_us / 1e6 - 100,) * 2)

        def act(thread: int, key: str = key) -> bool:
            if thread:
                return store.delete_older([key], now_us - 50_000_000) == (key,)
            try:
                store.refresh(key)
            except ObjectNotFoundError:
                return False
            return True

        refreshed, spared = at_once(act, 2)
        assert refreshed == spared == (keys(store, key) == [key])


def test_a_whole_second_counts_as_its_end() -> None:
    """Filesystems and stores that know no fractions have cut them off."""
    assert not is_older(5_000_000, 5_500_000)
    assert is_older(5_000_000, 6_000_000)
    assert is_older(5_000_001, 5_500_000)
    assert not is_older(5_000_001, 5_000_001)
