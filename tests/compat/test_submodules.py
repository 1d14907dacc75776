"""Modules of the package have the names, and hold the names, that they have in icechunk."""

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

import icechunk
import pytest

import frazil
from frazil.compatibility import AT_ONCE, ICECHUNK_VERSION, SUBMODULES

pytestmark = pytest.mark.compat
PUBLIC = set(import_module("frazil").__all__)
OFFERED = sorted(name for name in SUBMODULES if find_spec(f"frazil.{name}"))


def exported(module: ModuleType) -> set[str]:
    """What `__all__` says; without one, what was defined in the module and has a public name."""
    if (listed := getattr(module, "__all__", None)) is not None:
        return set(listed)
    return {
        name
        for name, value in vars(module).items()
        if getattr(value, "__module__", None) == module.__name__ and not name.startswith("_")
    }


def test_the_version_is_the_one_compared_with() -> None:
    assert icechunk.__version__ == ICECHUNK_VERSION


# What frazil adds to a module, as its docstring says
OWN = {
    "config": {"RepoUpdateRetryConfig"},
    "repository": {"Limits"},
    "virtual": {
        *("CodedLocations", "ContainerAccess", "VirtualChunkAccess", "VirtualChunkTable"),
        "VirtualReads",
        "KerchunkImport",
        "import_kerchunk",
        "write_virtual_dataset",
    },
}


def test_there_are_modules_to_compare() -> None:
    assert set(OFFERED) >= AT_ONCE


@pytest.mark.parametrize("name", sorted(SUBMODULES))
def test_a_module_of_that_name_is_there(name: str) -> None:
    assert find_spec(f"icechunk.{name}")


@pytest.mark.parametrize("name", OFFERED)
def test_a_module_holds_what_its_namesake_holds(name: str) -> None:
    ours, theirs = import_module(f"frazil.{name}"), import_module(f"icechunk.{name}")
    added = [each for each in ours.__all__ if not hasattr(theirs, each)]
    assert [each for each in added if each not in OWN.get(name, ())] == []
    there_elsewhere = exported(theirs) & PUBLIC
    assert sorted(there_elsewhere - set(ours.__all__)) == []


@pytest.mark.parametrize("name", sorted(AT_ONCE))
def test_the_package_has_the_module_as_an_attribute(name: str) -> None:
    assert getattr(frazil, name) is import_module(f"frazil.{name}")
    assert hasattr(icechunk, name)


@pytest.mark.parametrize("name", OFFERED)
def test_a_name_is_the_same_thing_in_the_package_and_in_the_module(name: str) -> None:
    module = import_module(f"frazil.{name}")
    for each in set(module.__all__) & PUBLIC:
        assert getattr(module, each) is getattr(frazil, each)


def test_the_kinds_of_errors_are_those_of_the_reference() -> None:
    ours = {each.name: each.value for each in frazil.ErrorKind}
    assert ours == {each.name: each.value for each in icechunk.ErrorKind}


def test_the_versions_are_those_of_the_reference() -> None:
    assert int(frazil.spec_version()) == int(icechunk.spec_version())
    ours, theirs = frazil.supported_spec_versions(), icechunk.supported_spec_versions()
    assert [int(each) for each in ours] == [int(each) for each in theirs]
