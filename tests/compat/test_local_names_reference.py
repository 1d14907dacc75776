"""The local store and the reference name the same files: each finds what the other wrote.

Refs of the first format version are files of their own, so their names carry any character.
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import icechunk
import pytest

from frazil.objectstore import LocalStore
from frazil.testing.objectstore import content, keys

pytestmark = pytest.mark.compat

# Every ASCII character but the slash, and beyond.
CHARACTERS = [chr(code) for code in range(128) if chr(code) != "/"] + [*"ä✓😀\x80\ufffd\u0301"]
NAMES = [f"x{character}y" for character in CHARACTERS] + [
    ".",
    "..",
    "%41",
    "%2F",
    "%%",
    "a#1",
    " led and trailed ",
    "é" * 30,
]


def tag_key(name: str) -> str:
    return f"refs/tag.{name}/ref.json"


@pytest.fixture
def repository(tmp_path: Path) -> icechunk.Repository:
    storage = icechunk.local_filesystem_storage(str(tmp_path))
    return icechunk.Repository.create(storage, spec_version=1)


def test_every_tag_of_the_reference_is_found_under_its_own_name(
    repository: icechunk.Repository, tmp_path: Path
) -> None:
    snapshot = repository.lookup_branch("main")
    for name in NAMES:
        repository.create_tag(name, snapshot)
    store = LocalStore(tmp_path)
    assert keys(store, "refs/tag.") == sorted(map(tag_key, NAMES))
    assert all(snapshot.encode() in content(store, tag_key(name)) for name in NAMES)


def test_the_reference_finds_every_tag_that_we_wrote(
    repository: icechunk.Repository, tmp_path: Path
) -> None:
    snapshot = repository.lookup_branch("main")
    repository.create_tag("model", snapshot)
    store = LocalStore(tmp_path)
    for name in NAMES:
        store.copy(tag_key("model"), tag_key(name))
    assert [repository.lookup_tag(name) for name in NAMES] == [snapshot] * len(NAMES)


def test_the_reference_overlooks_our_temporary_files_and_our_lock(
    repository: icechunk.Repository, tmp_path: Path
) -> None:
    ours = [tmp_path / ".frazil.lock"]
    for directory in ("snapshots", "manifests", "chunks", "transactions", "refs/branch.main"):
        (tmp_path / directory).mkdir(parents=True, exist_ok=True)
        ours.append(tmp_path / directory / ".frazil-tmp#00000000000000000042")
    for path in ours:
        path.write_bytes(b"not yet an object")
    repository.garbage_collect(datetime.now(UTC) + timedelta(days=1))
    assert repository.list_branches() == {"main"}
    assert all(path.exists() for path in ours)
