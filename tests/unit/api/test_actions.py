"""Maintenance is loaded when it is first asked for."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from frazil.api import actions


def test_names_are_found_where_type_checkers_find_them() -> None:
    body = ast.parse(Path(str(actions.__file__)).read_text()).body
    branch = next(each for each in body if isinstance(each, ast.If))
    declared = {
        alias.asname: each.module
        for each in branch.body
        if isinstance(each, ast.ImportFrom)
        for alias in each.names
    }
    assert declared == actions._MODULES
    for name, module in declared.items():
        assert getattr(actions, str(name)) is getattr(sys.modules[str(module)], str(name))


def test_a_name_that_is_not_there_is_none() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = actions.nothing  # type: ignore[attr-defined]


def test_reading_and_writing_load_no_maintenance() -> None:
    program = """
import sys
import frazil, zarr
repo = frazil.Repository.create(frazil.in_memory_storage())
session = repo.writable_session("main")
zarr.create_array(session.store, name="a", data=__import__("numpy").arange(3))
session.commit("a")
loaded = {name for name in sys.modules if name.startswith("frazil.maintenance.")}
light = ("defaults", "progress", "summaries")
assert loaded == {f"frazil.maintenance.{name}" for name in light}, loaded
assert repo.stats().references == 1
"""
    subprocess.run([sys.executable, "-c", program], check=True)
