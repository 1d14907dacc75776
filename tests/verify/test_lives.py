"""Healthy repositories of both implementations: nothing is wrong with any, and all is readable."""

import importlib
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from frazil.maintenance.verify.verify_store import verify
from frazil.objectstore.local import LocalStore
from frazil.objectstore.protocol import ObjectStore
from tests.verify.lives import Life

STEPS = 8
TOGETHER = 10  # lives in one test
LIVES = 50  # of each implementation and version

pytestmark = pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")


def storages(name: str, root: Path) -> Iterator[tuple[Any, ObjectStore]]:
    """Empty ones, as the implementation knows them and as we read them."""
    module = importlib.import_module(name)
    for number in range(TOGETHER):
        if name == "frazil":
            storage = module.in_memory_storage()
            yield storage, storage.store
        else:
            place = root / str(number)
            yield module.local_filesystem_storage(str(place)), LocalStore(place)


@pytest.mark.parametrize(
    ("name", "spec_version", "first"),
    list(product(("frazil", "icechunk"), (1, 2), range(0, LIVES, TOGETHER))),
)
def test_nothing_is_wrong_with_what_either_implementation_leaves(
    name: str, spec_version: int, first: int, tmp_path: Path
) -> None:
    module = importlib.import_module(name)
    for seed, (storage, store) in enumerate(storages(name, tmp_path), first):
        Life.begun(module, storage, spec_version, seed).lived(STEPS)
        report = verify(store)
        assert report.problems == (), (seed, [str(one) for one in report.problems])
        assert report.spec_version == spec_version
        assert report.snapshots >= 1
