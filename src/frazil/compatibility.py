"""`import icechunk` without the `icechunk` package: it gives frazil.

For libraries and programs that import Icechunk by its name. Nothing else changes: the classes are
frazil's, and say so.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import version
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from frazil.lazy import names_of

__version__ = version("frazil")
ICECHUNK_VERSION = "2.3.0"  # whose names and behaviour frazil has, and docs/parity.md compares
_NAME = "icechunk"
# Public modules of icechunk. Those that frazil has too are found; the others, and frazil's own
# layers, are not: `frazil.testing` is not the `icechunk.testing` of the same name.
AT_ONCE = names_of("frazil").submodules  # attributes as soon as the package is imported
SUBMODULES = AT_ONCE | {"dask", "distributed", "xarray"}


def install_as_icechunk() -> None:
    """Makes `import icechunk` import frazil in this process, even if icechunk is installed.

    `icechunk.__version__` is then the release whose interface frazil follows. May be called again.
    Raises RuntimeError if the real package was imported before: its classes are in use already.
    """
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    if (real := sys.modules.get(_NAME)) is not None:
        raise RuntimeError(
            f"icechunk is imported already, from {getattr(real, '__file__', 'somewhere')}:"
            " call frazil.install_as_icechunk() before anything imports it"
        )
    sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder):
    """Finds `icechunk` and everything below it, or says that it is not there."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        package, _, below = fullname.partition(".")
        if package != _NAME:
            return None
        if not below:
            return ModuleSpec(fullname, _PackageLoader(), origin="frazil", is_package=True)
        if below not in SUBMODULES or find_spec(f"frazil.{below}") is None:
            raise ModuleNotFoundError(
                f"no module named {fullname!r}: icechunk is frazil here, which does not offer it",
                name=fullname,
            )
        return ModuleSpec(fullname, _AliasLoader(f"frazil.{below}"), origin="frazil")


class _Icechunk(ModuleType):
    """frazil under the name of icechunk. A module of its own: frazil keeps its name and version."""

    def __getattr__(self, name: str) -> Any:
        if name == "__version__":
            return ICECHUNK_VERSION
        if name in AT_ONCE:
            return import_module(f"{_NAME}.{name}")
        if name == "__all__" or not name.startswith("_"):
            frazil = import_module("frazil")
            if name == "__all__" or name in frazil.__all__:
                return getattr(frazil, name)
        raise AttributeError(f"module {_NAME!r}, which is frazil here, has no attribute {name!r}")

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *import_module("frazil").__all__})


class _PackageLoader(Loader):
    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Icechunk(spec.name, doc="frazil, under the name of icechunk")

    def exec_module(self, module: ModuleType) -> None:
        """Nothing to run: names are looked up when they are used."""


class _AliasLoader(Loader):
    """Gives a module of frazil, the very same object, under another name."""

    def __init__(self, original: str) -> None:
        self._module = import_module(original)
        self._spec = self._module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        del spec
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        """Runs nothing; undoes what the import system wrote on the module."""
        module.__spec__ = self._spec
