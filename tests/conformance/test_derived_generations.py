"""Generations of which there is no repository, made of those next to them.

Each is the change that began or ended it (docs/generations.md), which leaves the arrays as they
were.
"""

import json
from base64 import urlsafe_b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack  # type: ignore[import-untyped]  # the package has no type information
import numpy as np
import pytest
import zarr

from frazil.api import Repository, local_filesystem_storage
from frazil.generations.alpha_encoder import pack_snapshot
from frazil.generations.msgpack_values import unpack
from frazil.ids import parse_base32
from tests.conformance.generations import ARCHIVES, expectations, put, repository_files

type Files = dict[str, bytes]


def changed(files: Files, **folders: Callable[[str, bytes], tuple[str, bytes]]) -> Files:
    """The files with those in some folders renamed and rewritten."""
    made = {}
    for path, data in files.items():
        folder, _, name = path.partition("/")
        if folder in folders:
            name, content = folders[folder](name, data)
            made[f"{folder}/{name}"] = content
        else:
            made[path] = data
    return made


def base64_name(name: str) -> str:
    raw = parse_base32(name.removesuffix(".msgpack"), 16)
    return urlsafe_b64encode(raw).decode() + ".msgpack"


def as_a1a(files: Files) -> Files:
    """Names in base 64, and snapshots that say nothing but their nodes."""
    return changed(
        files,
        s=lambda name, data: (base64_name(name), pack_snapshot(unpack(data)[-1:])),
        m=lambda name, data: (base64_name(name), data),
        c=lambda name, data: (base64_name(name), data),
    )


def as_a1c(files: Files) -> Files:
    """Refs without times."""

    def rewritten(name: str, data: bytes) -> tuple[str, bytes]:
        return name, json.dumps({"snapshot": json.loads(data)["snapshot"]}).encode()

    return changed(files, r=rewritten)


def as_a1d(files: Files) -> Files:
    """Locations of virtual chunks that are plain text."""

    def rewritten(name: str, data: bytes) -> tuple[str, bytes]:
        [chunks] = unpack(data)
        for payload in chunks.values():
            if "Virtual" in payload:
                place, *rest = payload["Virtual"]
                payload["Virtual"] = (place["Absolute"], *rest)
        return name, msgpack.packb((chunks,))

    return changed(files, m=rewritten)


def as_a2b(files: Files) -> Files:
    """Names that end as before, snapshots without lists of files, manifests without versions."""

    def node(parts: Any) -> Any:
        if parts[3] == "Group":
            return parts
        metadata, refs = parts[3]["Array"]
        return (*parts[:3], {"Array": (metadata, tuple((one, (), ()) for one, _ in refs))})

    def snapshot(name: str, data: bytes) -> tuple[str, bytes]:
        parts = unpack(data)
        nodes = {path: node(each) for path, each in parts[-1].items()}
        return f"{name}.msgpack", pack_snapshot((*parts[4:-1], nodes))

    return changed(
        files,
        snapshots=snapshot,
        manifests=lambda name, data: (f"{name}.msgpack", msgpack.packb(unpack(data)[2:])),
    )


def as_a2g(files: Files) -> Files:
    return {path: data for path, data in files.items() if path != "config.yaml"}


def as_a2j(files: Files) -> Files:
    """Snapshots that say how large their manifests are."""

    def rewritten(name: str, data: bytes) -> tuple[str, bytes]:
        parts = unpack(data)
        sized = tuple((one, 0, len(files[f"manifests/{one}"])) for one, _ in parts[2])
        return name, pack_snapshot((*parts[:2], sized, *parts[3:]))

    return changed(files, snapshots=rewritten)


DERIVED: dict[str, tuple[str, Callable[[Files], Files]]] = {
    "A1a": ("A1b", as_a1a),
    "A1c": ("A1b", as_a1c),
    "A1d": ("A1e", as_a1d),
    "A2b": ("A2c", as_a2b),
    "A2g": ("A2h", as_a2g),
    "A2j": ("A2i", as_a2j),
}


@pytest.mark.parametrize("generation", DERIVED)
def test_what_is_in_it_is_what_was_in_its_neighbour(generation: str, tmp_path: Path) -> None:
    start, derive = DERIVED[generation]
    [source] = [name for name in ARCHIVES if name.startswith(start)]
    put(derive(repository_files(source)), tmp_path)
    repository = Repository.open(local_filesystem_storage(str(tmp_path)))
    assert repository.generation == generation
    assert [str(problem) for problem in repository.verify(decode=True).problems] == []
    unconfirmed = local_filesystem_storage(str(tmp_path / "copy"))
    put(derive(repository_files(source)), tmp_path / "copy")
    Repository.open(unconfirmed).migrate()
    assert Repository.open(unconfirmed).verify().errors == []
    for ref, expected in expectations(source).items():
        kind, _, name = ref.partition(":")
        which: dict[str, Any] = {kind: name}
        messages = [info.message for info in repository.ancestry(**which)]
        if expected.messages is not None:
            known = [""] * (len(messages)) if generation == "A1a" else expected.messages
            assert messages == known
        session = repository.readonly_session(**which)
        for path, told in expected.arrays.items():
            if path.endswith(("big_chunks", "/v")):
                continue  # has virtual chunks
            array = zarr.open_array(session.store, path=path[1:], mode="r")
            found = np.asarray(array[...]).reshape(-1)[: len(told.first_values)]
            np.testing.assert_array_equal(found, np.array(told.first_values, dtype=array.dtype))
        assert set(session.all_virtual_chunk_locations())


def test_the_history_of_the_first_generation_is_that_of_its_branches(tmp_path: Path) -> None:
    put(as_a1a(repository_files("A1b-synthetic")), tmp_path)
    repository = Repository.open(local_filesystem_storage(str(tmp_path)))
    assert len(list(repository.ancestry(branch="main"))) == 3
    dev = list(repository.ancestry(branch="dev"))
    assert [info.id for info in dev[1:]] == [info.id for info in repository.ancestry(branch="main")]
    assert [info.written_at.year for info in dev] == [2024] * 4
    assert repository.list_manifest_files(dev[0].id)
    first, newest = dev[-1], dev[0]
    found = repository.diff(from_snapshot_id=first.id, to_snapshot_id=newest.id)
    assert "/g/i" in found.updated_chunks
    earlier = repository.readonly_session("main", as_of=dev[2].written_at)
    assert earlier.snapshot_id == dev[2].id
