"""Calls that change a disk are seen, failed and, if nothing was synced, forgotten."""

import errno
import os
import random
import sys
from pathlib import Path

import pytest

from frazil.errors import StorageError
from frazil.objectstore import ABSENT, LocalStore, Matches
from frazil.testing.disk import DiskCall, fail_at, full_disk, watched_disk
from frazil.testing.forgetful_disk import ForgetfulDisk
from tests.crash.killed import LocalPlace, processes
from tests.crash.operations import OPERATIONS


def names(calls: list[DiskCall]) -> list[str]:
    return [call.name for call in calls]


def test_the_steps_of_a_conditional_write_are_seen_in_order(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    with watched_disk(tmp_path) as calls:
        version = store.put("key", b"one", when=ABSENT)
    assert names(calls)[:5] == ["create", "write", "fsync", "link", "unlink"]
    assert names(calls)[5:] == ["fsync"]
    with watched_disk(tmp_path) as calls:
        store.put("key", b"two", when=Matches(version))
    wanted = ["create", "write", "fsync", "create", "lock", "rename", "unlock", "fsync"]
    assert names(calls) == wanted
    assert str(calls[5]).endswith(" key")
    before = len(calls)
    store.put("other", b"")  # nobody is looking any more
    assert len(calls) == before


def _audit(place: LocalPlace, found: Path) -> None:
    """What Python itself says that is done below the place, and what the watch says."""
    heard = list[str]()
    on = True

    def hear(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal on
        kinds = {"os.rename": "rename", "os.link": "link", "os.remove": "unlink"}
        if on and event in kinds and str(arguments[0]).startswith(str(place.root)):
            heard.append(kinds[event])
        elif on and event == "open" and str(arguments[0]).startswith(str(place.root)):
            flags = arguments[2]
            if isinstance(flags, int) and flags & os.O_EXCL:
                heard.append("create")

    sys.addaudithook(hear)
    calls = list[DiskCall]()  # tried, as Python tells of them before they are made
    with watched_disk(place.root, before=calls.append, fsync=False):
        OPERATIONS["commit"].act(place.storage(), lambda _: None)
    on = False
    seen = [name for name in names(calls) if name not in ("write", "fsync", "lock", "unlock")]
    lock_files = sum(str(call) == "create repo/.frazil.lock" for call in calls)
    missing = {name: (heard.count(name), seen.count(name)) for name in set(heard) | set(seen)}
    missing["create"] = missing["create"][0] + lock_files, missing["create"][1]
    found.write_text(repr({name: pair for name, pair in missing.items() if pair[0] != pair[1]}))


def test_no_call_escapes_the_watch(tmp_path: Path) -> None:
    place = LocalPlace(tmp_path)
    place.prepare(OPERATIONS["commit"])
    place.restore()
    found = tmp_path / "found"
    process = processes().Process(target=_audit, args=(place, found))
    process.start()
    process.join(60)
    assert found.read_text() == "{}"


def test_a_call_fails_as_asked_and_leaves_nothing(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    first = store.put("key", b"first", when=ABSENT)
    store.put("key", b"old", when=Matches(first))  # makes the lock's file, too
    with (
        watched_disk(tmp_path, before=fail_at(1, errno.ENOSPC)),
        pytest.raises(StorageError, match="cannot write 'key': the disk is full"),
    ):
        store.put("key", b"new", when=Matches(store.get("key").version))
    with watched_disk(tmp_path, before=full_disk(0)):
        with pytest.raises(StorageError, match="the disk is full"):
            store.put("other", b"new")
        assert store.delete(["key"]) == 1  # makes room
    assert [path.name for path in tmp_path.iterdir()] == [".frazil.lock"]


def test_a_lock_that_may_not_be_made_is_said_to_be(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    first = store.put("key", b"first", when=ABSENT)
    with (
        watched_disk(tmp_path, before=fail_at(3, errno.EACCES)) as calls,
        pytest.raises(StorageError, match="cannot write 'key': permission denied"),
    ):
        store.put("key", b"second", when=Matches(first))
    assert names(calls) == ["create", "write", "fsync", "unlink"]


def test_a_disk_keeps_what_was_synced(tmp_path: Path) -> None:
    root, image = tmp_path / "root", tmp_path / "image"
    root.mkdir()
    store = LocalStore(root)
    disk = ForgetfulDisk.of(root)
    with watched_disk(root, after=disk.apply, fsync=False, keep_data=True):
        store.put("d/plain", b"plain")
        assert disk.image().files == {}
        store.put("kept", b"kept", when=ABSENT)
        assert disk.image().files["kept"] == b"kept"
        assert "d/plain" not in disk.image().files
        store.sync()
        assert disk.image().files["d/plain"] == b"plain"
        store.delete(["kept"])
        assert "kept" in disk.image().files  # a name that comes back
        store.sync()
        assert "kept" not in disk.image().files
    disk.image().write_to(image)
    assert (image / "d" / "plain").read_bytes() == b"plain"


def test_a_disk_may_keep_more_than_was_synced(tmp_path: Path) -> None:
    disk = ForgetfulDisk.of(tmp_path)
    with watched_disk(tmp_path, after=disk.apply, fsync=False, keep_data=True):
        LocalStore(tmp_path).put("key", b"content")
    images = [disk.image(random.Random(seed)).files for seed in range(60)]
    contents = {files.get("key") for files in images}
    assert contents >= {None, b"", b"content"}
    assert any(content and len(content) < 7 for content in contents)  # torn
