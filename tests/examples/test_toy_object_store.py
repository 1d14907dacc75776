"""examples/toy_object_store.py: a store that a newcomer writes, in one file and one line."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

import frazil
from frazil.errors import InvalidInputError
from frazil.objectstore import ObjectStore
from frazil.objectstore.registry import find_scheme, open_store
from frazil.spark.runtime.storage_options import storage_of
from frazil.testing.objectstore import ObjectStoreContract, content
from frazil.testing.store_model import random_operations
from tests.cli.running import frazil as run_frazil

FILE = Path(__file__).parents[2] / "examples" / "toy_object_store.py"


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("toy_object_store", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TOY = load()


class TestToyStore(ObjectStoreContract):
    RACES = 5
    INCREMENTS = 5
    REPLACED = 20

    @pytest.fixture
    def store(self, tmp_path: Path) -> ObjectStore:
        store: ObjectStore = TOY.ToyStore(tmp_path / "objects.sqlite")
        return store


def test_it_agrees_with_the_model(tmp_path: Path) -> None:
    random_operations(TOY.ToyStore(tmp_path / "objects.sqlite"), seed=1, count=200)


def test_a_url_finds_it(tmp_path: Path) -> None:
    url = f"toy://{tmp_path}/objects.sqlite"
    repo = frazil.Repository.create(storage_of({"path": url}))
    session = repo.writable_session("main")
    snapshot = session.commit("made in a toy", allow_empty=True)
    reopened = frazil.Repository.open(frazil.Storage(open_store(url)))
    assert reopened.lookup_branch("main") == snapshot
    answer = run_frazil("log", url)
    assert (answer.code, "made in a toy" in answer.out) == (0, True)


def test_a_scheme_without_a_store_is_an_error() -> None:
    assert find_scheme("nothing") is None
    with pytest.raises(InvalidInputError, match="no object store for nothing://"):
        open_store("nothing://here")
    with pytest.raises(InvalidInputError, match="no parameter 'colour' for toy://"):
        open_store("toy:///x", colour="red")


def test_a_package_offers_a_scheme_by_an_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "pretend-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Name: pretend\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(
        "[frazil.object_stores]\npretend = pretend_store:open_it\n"
    )
    (tmp_path / "pretend_store.py").write_text(
        "from frazil.objectstore import MemoryStore\n"
        "def open_it(url):\n"
        "    store = MemoryStore()\n"
        "    store.put('url', url.encode())\n"
        "    return store\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert content(open_store("pretend://somewhere"), "url") == b"pretend://somewhere"
