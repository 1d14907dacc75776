"""Repositories that releases of the reference wrote: odd in places, and nothing wrong with them."""

import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from frazil.api import Repository as Api
from frazil.api import Storage
from frazil.api.values import AlphaVersion
from frazil.engine.refs.version import Branch
from frazil.engine.repository import Repository
from frazil.format.chunk_refs import RefKind
from frazil.generations.alpha_encoder import pack_snapshot
from frazil.generations.msgpack_values import unpack
from frazil.maintenance.repair.repair_store import repair
from frazil.maintenance.verify.verify_store import verify
from frazil.objectstore.local import LocalStore
from frazil.objectstore.memory import MemoryStore

FIXTURES = Path(__file__).parents[1] / "conformance" / "fixtures"
ARCHIVES = sorted([*FIXTURES.glob("V*.tar.gz"), *FIXTURES.glob("node-order/*.tar.gz")])
OLDER = sorted(FIXTURES.glob("generations/*.tar.gz"))
PRERELEASES = sorted(FIXTURES.glob("prereleases/*.tar.gz"))


def unpacked(archive: Path, target: Path) -> list[Path]:
    """Roots of the repositories inside."""
    with tarfile.open(archive) as packed:
        packed.extractall(target, filter="data")
    folders = [place for name in ("snapshots", "s") for place in target.rglob(name)]
    roots = sorted({place.parent for place in folders if place.is_dir()})
    assert roots
    return roots


@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda path: path.name.partition(".tar")[0])
def test_a_repository_of_an_old_release_is_clean(archive: Path, tmp_path: Path) -> None:
    for root in unpacked(archive, tmp_path):
        report = verify(LocalStore(root))
        assert report.errors == [], root
        assert report.warnings == [], root
        # The order of nodes before 1.1.3, and containers whose keys were names, are no damage.
        assert {one.kind for one in report.notes} <= {"nodes-in-old-order", "container-invalid"}
        assert report.refs.refs


@pytest.mark.parametrize("archive", OLDER, ids=lambda path: path.name.partition(".tar")[0])
def test_a_repository_of_an_older_generation_is_clean_until_something_is_gone(
    archive: Path, tmp_path: Path
) -> None:
    for root in unpacked(archive, tmp_path):
        store = LocalStore(root)
        report = verify(store)
        assert report.problems == (), root
        assert report.refs.refs
        opened = Api.open(Storage(store))  # whose store has today's names
        assert opened.verify(decode=True).problems == ()
        assert opened.repair(dry_run=True).steps == ()
        chunks = next(place for name in ("chunks", "c") if (place := root / name).is_dir())
        for chunk in sorted(chunks.iterdir()):
            chunk.unlink()
        assert "chunk-missing" in verify(store).kinds
        assert repair(store).steps == ()


@pytest.mark.parametrize("archive", PRERELEASES, ids=lambda path: path.name.partition(".tar")[0])
def test_what_alphas_of_version_2_wrote_otherwise_is_put_right(
    archive: Path, tmp_path: Path
) -> None:
    """They are read, by the reference too, though shapes and lists are those of version 1."""
    (root,) = unpacked(archive, tmp_path)
    store = LocalStore(root)
    before = shown(store)
    result = repair(store)
    assert {one.kind for one in result.before.errors} <= {
        "manifest-list-version",
        "shape-version",
        "file-damaged",  # moves did not say of which node
    }
    assert result.after.errors == []
    assert shown(store) == before
    assert set(result.after.kinds) == {"virtual-uncovered"}  # there was no configuration


def shown(store: LocalStore) -> dict[str, object]:
    session = Repository.open(store).readonly_session(Branch("dev"))
    return {
        node.path.text: [session.fetch_chunk(node.path, (0,) * len(node.array.shape)), node.array]
        if node.array is not None and node.path.text != "/v"
        else node.user_data
        for node in session.nodes()
    }


# ---- damage, of every generation -------------------------------------------------------------

EVERY = [*ARCHIVES, *OLDER, *PRERELEASES]


def spoil_with_ones(data: bytes) -> bytes:
    return b"\xff" * len(data)


def spoil_at_random(data: bytes) -> bytes:
    return np.random.default_rng(len(data)).bytes(len(data))


def cut_off(data: bytes) -> bytes:
    return data[:-1]


def decodable(store: LocalStore) -> set[tuple[str, tuple[int, ...]]]:
    """Chunks of the tips of branches that a codec can tell from garbage: those that it compressed.

    Bytes of the right length that were never compressed are always numbers.
    """
    repository = Repository.open(store)
    found: set[tuple[str, tuple[int, ...]]] = set()
    for name in repository.repo_info().branches:
        session = repository.readonly_session(Branch(name))
        for node in session.nodes():
            if node.array is None or b'"zstd"' not in node.user_data:
                continue
            for ref in node.array.manifests:
                refs = repository.files.fetch_manifest(ref.id).arrays.get(node.id)
                if refs is None or refs.ndim != len(node.array.shape):
                    continue
                inside = refs.within(node.array.num_chunks)
                native = inside.index[inside.kind == RefKind.NATIVE]
                found |= {(node.path.text, tuple(each)) for each in native.tolist()}
    return found


def declare_compressed(root: Path) -> None:
    """Makes arrays of plain bytes, as the oldest fixtures have, say that they are compressed.

    Their snapshots are bare MessagePack, codecs are pairs of a name and a configuration.
    """

    def rewrite(value: Any) -> Any:
        match value:
            case (("bytes", _),):
                return (*value, ("zstd", {"level": 0, "checksum": False}))
            case tuple():
                return tuple(map(rewrite, value))
            case dict():
                return {key: rewrite(each) for key, each in value.items()}
        return value

    for folder in ("s", "snapshots"):
        for file in (root / folder).glob("*"):
            file.write_bytes(pack_snapshot(rewrite(unpack(file.read_bytes()))))


@pytest.mark.parametrize("archive", EVERY, ids=lambda path: path.name.partition(".tar")[0])
def test_a_chunk_of_garbage_is_found_in_every_generation(archive: Path, tmp_path: Path) -> None:
    for root in unpacked(archive, tmp_path)[:1]:
        store = LocalStore(root)
        keys = [info.key for info in store.list() if info.key.startswith(("chunks/", "c/"))]
        if not keys:
            assert "by-" in archive.name  # all of its chunks are inline
            continue
        if not decodable(store):
            declare_compressed(root)
        wanted = decodable(store)
        assert wanted
        sound = {key: bytes(store.get(key).data) for key in keys}
        for spoil in (spoil_with_ones, spoil_at_random, cut_off)[: 1 if archive in ARCHIVES else 3]:
            for key, data in sound.items():
                store.put(key, spoil(data))
            errors = Api.open(Storage(store)).verify(decode=True).errors
            kinds = {"chunk-undecodable", "chunk-out-of-bounds"}
            found = {(one.place.node, one.place.chunk) for one in errors if one.kind in kinds}
            assert wanted <= found, spoil


@pytest.mark.parametrize("document", ["alpha1", "alpha2"])
def test_garbage_is_found_in_what_the_documents_describe(document: AlphaVersion) -> None:
    storage = Storage(MemoryStore())
    repo = Api.create(storage, spec_version=document)
    session = repo.writable_session("main")
    zarr.create_array(session.store, name="a", data=np.arange(4000), chunks=(1000,))
    session.commit("data")
    assert Api.verify_storage(storage, decode=True).problems == ()
    chunks = [info for info in storage.store.list() if info.key.startswith(("chunks/", "c/"))]
    for info in chunks:
        storage.store.put(info.key, b"\xff" * info.size_bytes)
    assert Api.verify_storage(storage, decode=True).kinds == {"chunk-undecodable": len(chunks)}
    assert repo.verify().problems == ()  # nothing is read without `decode`


@pytest.mark.parametrize("archive", OLDER, ids=lambda path: path.name.partition(".tar")[0])
def test_damaged_refs_and_logs_are_listed_and_nothing_is_raised(
    archive: Path, tmp_path: Path
) -> None:
    for root in unpacked(archive, tmp_path):
        store = LocalStore(root)
        keys = [info.key for info in store.list() if info.key.startswith(("r/", "refs/"))]
        newest = min(key for key in keys if "branch" in key and "main" in key)
        there = [key for key in keys if key.endswith(".json") and f"{key}.deleted" not in keys]
        repository = Repository.open(store)
        history = [str(info.id) for info in repository.ancestry(Branch("main"))]
        logs = [f"transactions/{name}" for name in history[:2]]
        logs = [info.key for info in store.list("transactions/") if info.key in logs]
        for number, key in enumerate(sorted({newest, there[0], there[-1], *logs})):
            sound = bytes(store.get(key).data)
            damages = (b"\xff" * len(sound), b"", sound[: len(sound) // 2])
            store.put(key, damages[number % 3])
            problems = verify(store).errors
            expected = "file-damaged" if key in logs else "ref-unreadable"
            assert {(one.kind, one.place.file) for one in problems} >= {(expected, key)}
            store.put(key, sound)
        assert verify(store).problems == ()
