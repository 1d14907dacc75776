"""Each damage is planted by itself and found as what it is; where there is none, none is."""

from functools import cache

import pytest

from frazil.maintenance.verify.kinds import KINDS
from frazil.maintenance.verify.run import verify
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


def test_at_least_forty_kinds_are_planted() -> None:
    assert len({damage.kind for damage in DAMAGES}) >= 70
