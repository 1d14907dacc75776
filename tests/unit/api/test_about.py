"""What the package says of itself, and the words it uses."""

import ast
from pathlib import Path
from typing import Any

import pytest

import frazil

SRC = Path(frazil.__file__).parent
OURS = {"cannot-fork-attached-manifests", "java-not-found"}  # Spark's; the reference has no Spark


def test_new_repositories_get_the_newest_version_that_is_supported() -> None:
    assert frazil.spec_version() == frazil.supported_spec_versions()[0]
    repo = frazil.Repository.create(frazil.in_memory_storage())
    assert repo.spec_version == frazil.spec_version()


@pytest.mark.parametrize("version", frazil.supported_spec_versions())
def test_a_supported_version_can_be_created(version: frazil.SpecVersion) -> None:
    repo = frazil.Repository.create(frazil.in_memory_storage(), spec_version=version)
    assert repo.spec_version == version


def test_servers_are_told_name_and_version() -> None:
    assert frazil.user_agent() == f"frazil-{frazil.__version__}"


def test_debug_info_names_versions(capsys: pytest.CaptureFixture[str]) -> None:
    frazil.print_debug_info()
    lines = capsys.readouterr().out.splitlines()
    assert f"frazil:  {frazil.__version__}" in lines
    assert {line.partition(":")[0] for line in lines} >= {"platform", "python", "zarr", "numpy"}


def test_the_switches_for_logs_are_there(capsys: pytest.CaptureFixture[str]) -> None:
    frazil.initialize_logs()
    frazil.set_logs_filter("debug")
    frazil.set_logs_filter(None)
    frazil.shutdown_telemetry()
    assert capsys.readouterr() == ("", "")


def test_the_kind_of_an_error_equals_a_member_of_the_enumeration() -> None:
    with pytest.raises(frazil.RefNotFoundError) as caught:
        frazil.Repository.create(frazil.in_memory_storage()).lookup_branch("none")
    assert frazil.ErrorKind(caught.value.kind) == caught.value.kind
    assert str(frazil.ErrorKind.REF_NOT_FOUND) == "ref-not-found"


def kinds_in(path: Path) -> set[Any]:
    """Strings given as `kind=` to an error, or set as a class's `default_kind`."""
    found = set[Any]()
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Call(func=ast.Name(id=name), keywords=given) if name.endswith("Error"):
                values = {each.arg: each.value for each in given}
                if isinstance(kind := values.get("kind"), ast.Constant):
                    found.add(kind.value)
            case ast.Assign(
                targets=[ast.Name(id="default_kind")], value=ast.Constant(value=default)
            ):
                found.add(default)
    return found


def test_every_kind_that_the_code_uses_is_in_the_enumeration() -> None:
    raised = [
        file
        for folder in ("api", "engine", "format", "generations", "objectstore", "zarrstore")
        for file in (SRC / folder).rglob("*.py")
    ]
    used = set.union(*(kinds_in(file) for file in [*raised, SRC / "errors.py"]))
    assert len(used) > 20
    assert used - set(frazil.ErrorKind) == OURS
