"""What is synced, when, and in which order: by looking at the real calls."""

import errno
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import zarr

import frazil
from frazil.errors import StorageError
from frazil.objectstore import ABSENT, LocalStore, Matches
from frazil.objectstore.local import local_directories
from frazil.testing.objectstore import at_once


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "above" / "base"


@pytest.fixture
def calls(root: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """fsync, link and rename as they happen, by paths relative to what is above the root."""
    seen: list[str] = []

    def name(path: str) -> str:
        relative = os.path.relpath(path, root.parent.parent)
        return "TEMP" if "#" in relative else relative

    def spy(function: str, describe: Callable[..., str]) -> None:
        real = getattr(os, function)

        def spied(*args: object, **kwargs: object) -> object:
            seen.append(describe(*args))
            return real(*args, **kwargs)

        monkeypatch.setattr(os, function, spied)

    spy("fsync", lambda fd: f"fsync {name(str(Path(f'/proc/self/fd/{fd}').readlink()))}")
    spy("link", lambda _, path: f"link {name(path)}")
    spy("replace", lambda _, path: f"rename {name(path)}")
    return seen


def test_a_conditional_put_is_durable_when_it_returns(root: Path, calls: list[str]) -> None:
    store = LocalStore(root)
    version = store.put("d/a", b"1", when=ABSENT)
    made = ["fsync .", "fsync above"]  # the root was made, and a directory for it
    assert calls[:2] == made
    assert calls[2:4] == ["fsync TEMP", "link above/base/d/a"]
    assert sorted(calls[4:]) == ["fsync above", "fsync above/base", "fsync above/base/d"]
    calls.clear()
    store.put("d/a", b"2", when=Matches(version))
    assert calls == ["fsync TEMP", "rename above/base/d/a", "fsync above/base/d"]


def test_a_plain_put_waits_for_sync(root: Path, calls: list[str]) -> None:
    store = LocalStore(root)
    for key in ("a", "d/b", "d/e/c"):
        store.put(key, b"x")
    assert [call for call in calls if call.startswith("fsync")] == ["fsync .", "fsync above"]
    calls.clear()
    store.sync()
    files = {"above/base/a", "above/base/d/b", "above/base/d/e/c"}
    directories = {"above/base", "above/base/d", "above/base/d/e"}
    assert sorted(calls) == sorted(f"fsync {one}" for one in {*files, *directories, "above"})
    calls.clear()
    store.sync()
    assert calls == []


def test_a_replacement_waits_until_what_was_put_before_is_durable(
    root: Path, calls: list[str]
) -> None:
    store = LocalStore(root)
    version = store.put("repo", b"1", when=ABSENT)
    store.put("d/first", b"")
    version = store.put("repo", b"1", when=Matches(version))
    store.put("d/a", b"")
    store.put("d/b", b"")
    calls.clear()
    store.put("repo", b"2", when=Matches(version))
    before = {"TEMP", "above/base/d/a", "above/base/d/b", "above/base/d"}
    assert sorted(calls[:4]) == sorted(f"fsync {one}" for one in before)
    assert calls[4:] == ["rename above/base/repo", "fsync above/base"]
    calls.clear()
    store.sync()
    assert calls == []


def test_a_large_file_is_on_its_way_before_sync(root: Path, calls: list[str]) -> None:
    store = LocalStore(root)
    store.put("a", bytes(1 << 20))
    store.put("b", b"")
    deadline = time.monotonic() + 60
    while "fsync above/base/a" not in calls and time.monotonic() < deadline:
        time.sleep(0.01)
    assert "fsync above/base/b" not in calls
    store.sync()
    assert calls.count("fsync above/base/a") == calls.count("fsync above/base/b") == 1


def test_of_many_large_files_some_wait_for_sync(
    root: Path, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each that is on its way takes memory until then."""
    monkeypatch.setattr(local_directories, "_MOST_BEGUN", 2)
    store = LocalStore(root)
    for name in "abcd":
        store.put(name, bytes(1 << 20))
    deadline = time.monotonic() + 60
    while not {"fsync above/base/a", "fsync above/base/b"} <= {*calls}:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert not {"fsync above/base/c", "fsync above/base/d"} & {*calls}
    store.sync()
    assert [calls.count(f"fsync above/base/{name}") for name in "abcd"] == [1, 1, 1, 1]
    calls.clear()
    store.put("e", bytes(1 << 20))
    store.sync()
    assert calls.count("fsync above/base/e") == 1


def test_a_large_file_that_was_lost_is_told_by_sync(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    store = LocalStore(root)
    store.put("first", b"")
    store.sync()
    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", fail)
        store.put("a", bytes(5 << 20))
        with pytest.raises(StorageError, match="may be lost"):
            store.sync()
    with pytest.raises(StorageError, match="may be lost"):
        store.sync()


def test_a_small_commit_syncs_each_file_and_directory_once(root: Path, calls: list[str]) -> None:
    repo = frazil.Repository.create(frazil.local_filesystem_storage(str(root)))
    for value in (1, 2):
        session = repo.writable_session("main")
        array = zarr.create_array(session.store, name=f"a{value}", shape=(3,), dtype="i4")
        array[:] = value
        calls.clear()
        session.commit(f"{value}")
    synced = [call for call in calls if call.startswith("fsync")]
    assert len(synced) == 10  # manifest, snapshot, log, backup, `repo`, and their directories
    assert sum(call.startswith("fsync above/base/") for call in synced) == 8
    assert calls[-2:] == ["rename above/base/repo", "fsync above/base"]
    calls.clear()
    repo.create_tag("t", repo.lookup_branch("main"))
    assert len([call for call in calls if call.startswith("fsync")]) == 4
    assert calls[0].startswith("link above/base/overwritten")


def test_content_is_durable_before_it_replaces_other_content(root: Path, calls: list[str]) -> None:
    store = LocalStore(root)
    store.put("a", b"old")
    store.sync()
    calls.clear()
    store.put("a", b"new")
    assert calls == ["link above/base/a", "fsync TEMP", "rename above/base/a"]


def test_fsync_can_be_turned_off(root: Path, calls: list[str]) -> None:
    store = LocalStore(root, fsync=False)
    version = store.put("d/a", b"1", when=ABSENT)
    store.put("d/a", b"2", when=Matches(version))
    store.put("d/b", b"")
    store.put("d/b", b"")
    store.sync()
    assert [call for call in calls if call.startswith("fsync")] == []


def test_a_file_put_by_any_thread_is_synced_once(root: Path, calls: list[str]) -> None:
    store = LocalStore(root)

    def work(thread: int) -> None:
        for number in range(10):
            store.put(f"d/{thread}-{number}", b"")
            if number % 4 == 0:
                store.sync()

    at_once(work)
    store.sync()
    files = [call for call in calls if call.startswith("fsync above/base/d/")]
    assert len(files) == len(set(files)) == 80


def test_after_a_failed_sync_no_sync_succeeds(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel reports a lost page once; a second fsync would say that all is well."""
    store = LocalStore(root)
    store.put("a", b"")
    store.sync()
    store.put("b", b"")

    def fail(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", fail)
        with pytest.raises(StorageError, match="may be lost"):
            store.sync()
    with pytest.raises(StorageError, match="may be lost"):
        store.sync()
    LocalStore(root).sync()


def test_an_interrupted_sync_is_done_again(
    root: Path, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(root)
    store.put("a", b"")

    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as impatient:
        impatient.setattr(os, "fsync", interrupt)
        with pytest.raises(KeyboardInterrupt):
            store.sync()
    calls.clear()
    store.sync()
    assert "fsync above/base/a" in calls


def test_a_directory_that_cannot_be_synced_is_left_to_the_filesystem(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.fsync

    def refuse_directories(descriptor: int) -> None:
        if os.path.isdir(f"/proc/self/fd/{descriptor}"):  # noqa: PTH112 - as short as it gets
            raise OSError(errno.EINVAL, "Invalid argument")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", refuse_directories)
    store = LocalStore(root)
    store.put("a/b", b"", when=ABSENT)
    store.put("a/c", b"")
    store.sync()


def test_a_forked_child_has_nothing_to_sync(root: Path) -> None:
    script = (
        "import os, sys\n"
        "from frazil.objectstore import LocalStore\n"
        "store = LocalStore(sys.argv[1])\n"
        "store.put('parents', b'')\n"
        "synced = []\n"
        "real = os.fsync\n"
        "os.fsync = lambda fd: (synced.append(os.readlink(f'/proc/self/fd/{fd}')), real(fd))\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    store.put('childs', b'')\n"
        "    store.sync()\n"
        "    os._exit(any(path.endswith('parents') for path in synced) or not synced)\n"
        "code = os.waitpid(child, 0)[1]\n"
        "store.sync()\n"
        "sys.exit(code or not any(path.endswith('parents') for path in synced))\n"
    )
    subprocess.run(
        [sys.executable, "-W", "error", "-c", script, str(root)], check=True, timeout=120
    )
