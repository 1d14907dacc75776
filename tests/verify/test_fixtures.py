"""Repositories that releases of the reference wrote: odd in places, and nothing wrong with them."""

import tarfile
from pathlib import Path

import pytest

from frazil.maintenance.repair.run import repair
from frazil.maintenance.verify.run import verify
from frazil.objectstore.local import LocalStore
from frazil.repo.repository import Repository
from frazil.repo.version import Branch

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
