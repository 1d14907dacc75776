"""What `import frazil` offers, and how it compares with the `icechunk` package."""

import ast
import inspect
import subprocess
import sys
from enum import IntEnum
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import icechunk
import pytest

import frazil
import frazil.api
from frazil import lazy

PUBLIC: list[str] = import_module("frazil").__all__
FACE = ["Repository", "Session", "IcechunkStore", "Storage"]

# Parameters and methods of the reference that later issues bring. A parameter is left out rather
# than accepted and ignored.
NOT_YET_PARAMETERS = set[str]()
NOT_YET_METHODS = {
    "Repository": set[str](),
    "Session": set[str](),
    "IcechunkStore": set[str](),
    "Storage": set[str](),
}
# Parameters that the reference does not have: always after its own, and by name only.
OUR_PARAMETERS = {
    "Repository.open": {"limits"},
    "Repository.open_async": {"limits"},
    "Repository.expire_snapshots": {
        "snapshot_ids", "retain_last", "protect_branches", "protect_tags", "dry_run",
    },
    "Repository.garbage_collect": {
        "incremental", "inventory", "safety_age", "backups_older_than", "leftovers", "progress",
    },
}  # fmt: skip
# Not in the reference: the door to frazil's own layers, edits of history, and zarr's synchronous
# store methods.
OURS = {
    "Repository": {
        "generation",
        "engine", "revert", "revert_async", "cherry_pick", "cherry_pick_async", "merge",
        "merge_async", "squash", "squash_async", "virtual_chunks", "virtual_chunks_async",
        "virtual_containers", "clone_to", "clone_to_async", "export_bundle", "export_bundle_async",
        "import_bundle", "import_bundle_async", "open_bundle", "open_bundle_async",
        "migrate", "migrate_async", "confirm_migration", "confirm_migration_async",
        "pack", "pack_async", "unpack", "unpack_async", "purge_path",
        "purge_path_async", "purge_messages", "purge_messages_async",
        "stats", "stats_async", "verify", "verify_async", "repair", "repair_async",
        "verify_storage", "verify_storage_async", "repair_storage", "repair_storage_async",
    },
    "Session": {"engine", "virtual_chunks", "virtual_chunks_async"},
    "IcechunkStore": {"get_sync", "set_sync", "delete_sync", "read_only"},
    "Storage": set(),
}  # fmt: skip


def public(cls: type) -> dict[str, Any]:
    """Members a class defines, itself or in a base class of the same package."""
    package = cls.__module__.partition(".")[0]
    return {
        name: member
        for base in reversed(cls.__mro__)
        if base.__module__.partition(".")[0] == package
        for name, member in vars(base).items()
        if not name.startswith("_")
    }


def test_the_package_offers_what_the_api_lists() -> None:
    listed = import_module("frazil.api").__all__
    assert {*listed, "__version__", "install_as_icechunk"} == set(PUBLIC)
    assert set(PUBLIC) <= set(dir(frazil))
    for name in PUBLIC:
        assert getattr(frazil, name) is not None


def test_type_checkers_see_the_names_and_modules_that_are_loaded() -> None:
    """What is imported `as` itself is a name of `frazil.api`, of the package, or a module of it."""
    assert reexported(frazil.api) == set(import_module("frazil.api").__all__)
    for package in ("frazil.api", "frazil.objectstore.remote"):
        assert shown_modules(import_module(package)) == lazy.names_of(package).modules
    names = lazy.names_of("frazil")
    assert reexported(frazil) == {*names.modules, *names.submodules}
    for module in names.submodules:
        shown = reexported(import_module(f"frazil.{module}"))
        own = {"HttpAccess", "LocalFileSystemAccess"} if module == "credentials" else set()
        assert set(import_module(f"frazil.{module}").__all__) == shown | own


def reexported(module: ModuleType) -> set[str]:
    return {
        alias.name
        for node in ast.walk(ast.parse(Path(str(module.__file__)).read_text()))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name
    }


def shown_modules(module: ModuleType) -> dict[str, str]:
    """Returns the names that are shown to type checkers, with the modules they come from."""
    return {
        alias.name: str(node.module)
        for node in ast.walk(ast.parse(Path(str(module.__file__)).read_text()))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name
    }


def test_other_names_are_not_there() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        _ = frazil.nonsense  # type: ignore[attr-defined]  # what is tested


def test_every_name_is_one_of_the_reference() -> None:
    # icechunk has the first in its compiled module only, and the second in icechunk.storage
    ours = {
        *("RepoUpdateRetryConfig", "azure_store"),
        *("install_as_icechunk", "read_region", "write_region"),
    }
    assert [name for name in PUBLIC if not hasattr(icechunk, name)] == sorted(ours)


def test_importing_the_package_does_not_import_zarr() -> None:
    code = "import sys, frazil, frazil.errors; assert 'zarr' not in sys.modules; frazil.Repository"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.compat
@pytest.mark.parametrize("name", FACE)
def test_the_members_are_those_of_the_reference(name: str) -> None:
    cls, theirs = getattr(frazil, name), _reference_members(name)
    assert theirs - set(dir(cls)) == NOT_YET_METHODS[name]
    assert set(public(cls)) - theirs - OURS[name] == set()


def _reference_members(name: str) -> set[str]:
    cls = getattr(icechunk, name)
    return {member for member in vars(cls) if not member.startswith("_")}


@pytest.mark.compat
@pytest.mark.parametrize("name", FACE)
def test_signatures_are_those_of_the_reference(name: str) -> None:
    for member in sorted(set(public(getattr(frazil, name))) & _reference_members(name)):
        theirs = inspect.getattr_static(getattr(icechunk, name), member)
        if isinstance(theirs, property):
            continue
        ours = inspect.signature(getattr(getattr(frazil, name), member))
        expected = inspect.signature(getattr(getattr(icechunk, name), member))
        own = OUR_PARAMETERS.get(f"{name}.{member}".removesuffix("_async"), set())
        assert own <= {p.name for p in ours.parameters.values() if p.kind is p.KEYWORD_ONLY}
        assert [each for each in _parameters(ours) if each[0] not in own] == [
            (one, default)
            for one, default in _parameters(expected)
            if one not in NOT_YET_PARAMETERS
        ], f"{name}.{member}"
        _require_no_position_changed(ours, expected, f"{name}.{member}")


def _parameters(signature: inspect.Signature) -> list[tuple[str, object]]:
    return [(one.name, one.default) for one in signature.parameters.values()]


def _require_no_position_changed(
    ours: inspect.Signature, theirs: inspect.Signature, what: str
) -> None:
    """An argument given by position means the same to both, or is refused."""
    positional = [
        [one.name for one in signature.parameters.values() if one.kind is not one.KEYWORD_ONLY]
        for signature in (ours, theirs)
    ]
    assert positional[0] == positional[1][: len(positional[0])], what


@pytest.mark.compat
@pytest.mark.parametrize("module", ["storage", "credentials"])
def test_functions_of_a_module_are_those_of_the_reference(module: str) -> None:
    ours, theirs = getattr(frazil, module), getattr(icechunk, module)
    assert sorted(ours.__all__) == sorted(theirs.__all__)
    for name in theirs.__all__:
        if inspect.isfunction(expected := getattr(theirs, name)):
            found = inspect.signature(getattr(ours, name))
            assert _parameters(found) == _parameters(inspect.signature(expected)), name
            _require_no_position_changed(found, inspect.signature(expected), name)


@pytest.mark.compat
@pytest.mark.parametrize(
    "name", ["create", "open", "commit_async", "ops_log_async", "async_ancestry", "transaction"]
)
def test_what_is_awaited_there_is_awaited_here(name: str) -> None:
    for cls in ("Repository", "Session"):
        theirs = getattr(getattr(icechunk, cls), name, None)
        ours = getattr(getattr(frazil, cls), name, None)
        if theirs is not None:
            assert inspect.iscoroutinefunction(ours) == inspect.iscoroutinefunction(theirs)


@pytest.mark.compat
@pytest.mark.parametrize(
    "name", ["ChunkType", "SessionMode", "RepoAvailability", "SpecVersion", "CompressionAlgorithm"]
)
def test_enumerations_have_the_values_of_the_reference(name: str) -> None:
    ours, theirs = getattr(frazil, name), getattr(icechunk, name)
    assert issubclass(ours, IntEnum)
    values = {
        member: int(getattr(theirs, member))
        for member in vars(theirs)
        if not member.startswith("_") and isinstance(getattr(theirs, member), theirs)
    }
    assert values.items() <= {member.name: member.value for member in ours}.items()


@pytest.mark.compat
def test_kinds_of_update_have_the_parts_of_the_reference() -> None:
    theirs = {name for name in vars(icechunk.UpdateType) if not name.startswith("_")}
    assert {name for name in vars(frazil.UpdateType) if not name.startswith("_")} == theirs
    for name in theirs:
        expected = inspect.signature(getattr(icechunk.UpdateType, name)).parameters
        assert list(inspect.signature(getattr(frazil.UpdateType, name)).parameters) == list(
            expected
        )


@pytest.mark.compat
@pytest.mark.parametrize(
    "name",
    ["SnapshotInfo", "Diff", "Update", "RepoStatus", "ManifestFileInfo", "VirtualChunkSpec"],
)
def test_values_have_the_attributes_of_the_reference(name: str) -> None:
    theirs = {member for member in vars(getattr(icechunk, name)) if not member.startswith("_")}
    assert theirs <= set(dir(getattr(frazil, name)))


@pytest.mark.compat
def test_the_error_tree_is_that_of_the_reference() -> None:
    for name in PUBLIC:
        ours = getattr(frazil, name)
        if isinstance(ours, type) and issubclass(ours, Exception):
            expected = [base.__name__ for base in getattr(icechunk, name).__mro__]
            assert [base.__name__ for base in ours.__mro__] == expected, name
