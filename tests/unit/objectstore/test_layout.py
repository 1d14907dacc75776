"""The direction of imports inside objectstore: the root, then local/ and remote/, side by side."""

import ast
from pathlib import Path

import frazil.objectstore

PACKAGE = Path(frazil.objectstore.__file__).parent
NAME = "frazil.objectstore."
OPENERS = {"__init__.py", "archive.py"}  # they are built on local/ or remote/


def imported(path: Path) -> set[str]:
    """Modules of the package that a file imports, as `local.files`."""
    nodes = ast.walk(ast.parse(path.read_text()))
    names = {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    return {name.removeprefix(NAME) for name in names if name.startswith(NAME)}


def test_the_root_does_not_import_what_is_built_on_it() -> None:
    files = [path for path in PACKAGE.glob("*.py") if path.name not in OPENERS]
    assert len(files) > 8
    upward = {(path.name, name) for path in files for name in imported(path) if "." in name}
    assert upward == set()


def test_local_and_remote_do_not_know_each_other() -> None:
    pairs = {
        (folder, name)
        for folder, other in (("local", "remote"), ("remote", "local"))
        for path in (PACKAGE / folder).glob("*.py")
        for name in imported(path)
        if name.partition(".")[0] == other
    }
    assert pairs == set()
