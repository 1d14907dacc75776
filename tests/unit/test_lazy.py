"""Names and modules that are loaded at first use."""

import gc
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from frazil import lazy

INIT = """
from frazil.lazy import attach
attach(__name__, {"lazy_pets.dog": ["dog", "Dog"]}, submodules=["cat"], exporter="lazy_pets.zoo")
"""
FILES = {
    "__init__": INIT,
    "dog": "def dog(): return 'wow'\nclass Dog: ...",
    "cat": "name = 'cat'",
    "zoo": "__all__ = ['lion']\nlion, ant = 1, 2",
    "collected": "import gc\nis_enabled = gc.isenabled()",
    "broken": "raise RuntimeError('broken')",
}


@pytest.fixture
def pets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    folder = tmp_path / "lazy_pets"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield __import__("lazy_pets")
    for name in [each for each in sys.modules if each.startswith("lazy_pets")]:
        del sys.modules[name]


def loaded() -> list[str]:
    return sorted(name for name in sys.modules if name.startswith("lazy_pets."))


def test_a_name_is_loaded_with_its_module_only(pets: ModuleType) -> None:
    assert loaded() == []
    assert pets.Dog.__name__ == "Dog"
    assert loaded() == ["lazy_pets.dog"]
    assert pets.lion == 1
    assert pets.cat.name == "cat"


def test_a_module_does_not_hide_the_function_of_its_name(pets: ModuleType) -> None:
    __import__("lazy_pets.dog")
    assert pets.dog() == "wow"


def test_the_names_are_listed(pets: ModuleType) -> None:
    assert pets.__all__ == ["Dog", "dog", "lion"]
    assert {"Dog", "dog", "lion", "cat"} <= set(dir(pets))
    assert lazy.names_of("lazy_pets").submodules == {"cat"}


@pytest.mark.parametrize("enabled", [True, False])
def test_the_garbage_collector_waits_for_an_import(
    pets: ModuleType, *, enabled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert pets.lion == 1
    if not enabled:
        monkeypatch.setattr(lazy, "gc", SimpleNamespace(isenabled=lambda: False))  # no enable()
    assert lazy.load("lazy_pets.collected", "is_enabled") is not enabled
    with pytest.raises(RuntimeError, match="broken"):
        lazy.load("lazy_pets.broken", "name")
    assert gc.isenabled()


@pytest.mark.parametrize("name", ["ant", "nonsense", "_private", "__path_of_nothing__"])
def test_other_names_are_not_there(pets: ModuleType, name: str) -> None:
    with pytest.raises(AttributeError, match=f"'lazy_pets' has no attribute '{name}'"):
        getattr(pets, name)


def test_a_lazy_module_is_imported_when_it_is_used(pets: ModuleType) -> None:
    cat = lazy.lazy_module("lazy_pets.cat")
    assert loaded() == []
    assert (cat.name, pets.cat.name) == ("cat", "cat")
    with pytest.raises(AttributeError, match="nothing"):
        _ = cat.nothing


def test_a_package_is_pickled_by_its_name(pets: ModuleType) -> None:
    assert pickle.loads(pickle.dumps(pets)) is pets


def test_a_process_that_forks_during_a_lazy_import_can_use_the_module(tmp_path: Path) -> None:
    """Otherwise the module would stay locked in the child, by a thread that is not there."""
    (tmp_path / "slow_pet.py").write_text("import time\nprint('begun')\ntime.sleep(1)\nlegs = 4")
    code = """
import os, sys, threading
from frazil.lazy import lazy_module
sys.path.insert(0, sys.argv[1])
slow_pet = lazy_module("slow_pet")
begun = threading.Event()

class Output:
    def write(self, text):
        begun.set()

    def flush(self): ...

sys.stdout = Output()
thread = threading.Thread(target=lambda: slow_pet.legs)
thread.start()
assert begun.wait(60)
process = os.fork()
assert slow_pet.legs == 4
if not process:
    os._exit(0)
thread.join()
assert os.waitpid(process, 0)[1] == 0
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, timeout=120, check=False
    )
    assert not done.returncode, done.stderr.decode()
