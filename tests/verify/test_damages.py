"""Each damage is planted by itself and found as what it is; where there is none, none is."""

from functools import cache
from pathlib import Path

import pytest

from frazil.maintenance.verify.problems import KINDS
from frazil.maintenance.verify.verify_store import verify
from frazil.objectstore.memory import MemoryStore
from tests.verify.damage import Damage, copied, healthy
from tests.verify.damages import DAMAGES


@cache
def once(spec_version: int) -> MemoryStore:
    return healthy(spec_version)


@pytest.mark.parametrize("spec_version", [1, 2])
def test_nothing_is_found_where_nothing_is_planted(spec_version: int) -> None:
    report = verify(once(spec_version))
    assert report.problems == ()
    assert min(report.refs.native, report.refs.inline, report.refs.virtual) > 0


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda one: f"v{one.spec_version} {one.name}")
def test_a_planted_damage_is_found_as_what_it_is(damage: Damage) -> None:
    store = copied(once(damage.spec_version))
    damage.plant(store)
    report = verify(store)
    found = [one for one in report.problems if one.kind == damage.kind]
    assert found, [str(one) for one in report.problems]
    assert all(one.severity is KINDS[damage.kind].severity for one in found)
    assert all(one.text and one.place.file for one in found)


# Planted elsewhere in this folder
ELSEWHERE = {
    "test_chunks.py": {
        "chunk-undecodable",
        "virtual-changed",
        "virtual-missing",
        "virtual-out-of-bounds",
        "virtual-unauthorized",
    },
    "test_fixtures.py": {"container-invalid", "nodes-in-old-order"},
    "test_odd_tables.py": {
        "file-unreadable",
        "log-chunks-in-old-order",
        "node-kind",
        "ops-log-unknown-update",
    },
}
UNPLANTED = {"virtual-unreadable"}  # any other failure of somebody else's storage


def test_every_kind_of_problem_is_planted() -> None:
    planted = {damage.kind for damage in DAMAGES}
    for file, kinds in ELSEWHERE.items():
        text = (Path(__file__).parent / file).read_text()
        assert all(kind in text for kind in kinds), file
        planted |= kinds
    assert planted | UNPLANTED == set(KINDS)
    assert len(planted) >= 100
