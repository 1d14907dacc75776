"""Repositories that releases of the reference wrote: odd in places, and nothing wrong with them."""

import tarfile
from pathlib import Path

import pytest

from frazil.maintenance.verify.run import verify
from frazil.objectstore.local import LocalStore

FIXTURES = Path(__file__).parents[1] / "conformance" / "fixtures"
ARCHIVES = sorted([*FIXTURES.glob("V*.tar.gz"), *FIXTURES.glob("node-order/*.tar.gz")])


@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda path: path.name.partition(".tar")[0])
def test_a_repository_of_an_old_release_is_clean(archive: Path, tmp_path: Path) -> None:
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path, filter="data")
    roots = sorted({place.parent for place in tmp_path.rglob("snapshots")})
    assert roots
    for root in roots:
        report = verify(LocalStore(root))
        assert report.errors == [], root
        assert report.warnings == [], root
        # The order of nodes before 1.1.3, and containers whose keys were names, are no damage.
        assert {one.kind for one in report.notes} <= {"nodes-in-old-order", "container-invalid"}
        assert report.refs.refs
