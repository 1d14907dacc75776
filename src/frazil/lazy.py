"""Lazy imports: the one mechanism by which names and modules are loaded at first use.

A package that takes long to import (zarr, maintenance, SQL, readers of many formats) must not slow
down `frazil --help` or a worker of Spark, which need little of it.
"""

import gc
import os
import sys
from _thread import RLock
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from types import ModuleType
from typing import Any, override


def load(module: str, name: str) -> Any:
    """Returns an attribute of a module, which is imported if necessary."""
    if module in sys.modules:
        return getattr(import_module(module), name)
    _stop_others()
    try:
        with paused_collector():
            return getattr(import_module(module), name)
    finally:
        _let_others_go_on()


# A module that one thread imports while another one forks the process stays locked in the child,
# which hangs when it needs the module. So forks wait for lazy imports, and these for forks; but not
# endlessly, as one of the modules may fork, or wait for a thread that does.

_PATIENCE_S = 10
_imports = RLock()


def _stop_others() -> None:
    _imports.acquire(timeout=_PATIENCE_S)


def _let_others_go_on() -> None:
    with suppress(RuntimeError):  # another thread held it for too long
        _imports.release()


os.register_at_fork(
    before=_stop_others, after_in_parent=_let_others_go_on, after_in_child=_let_others_go_on
)


@contextmanager
def paused_collector() -> Iterator[None]:
    """Lets Python's garbage collector wait while modules are imported.

    Nothing that an import makes is garbage, but it makes so much that all objects of the process
    would be searched several times: a third of the time that importing the engine takes after zarr.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class LazyNames:  # a dataclass would take longer to import than the package itself
    """Names of a package and the modules that define them."""

    def __init__(
        self, modules: Mapping[str, str], submodules: frozenset[str], exporter: str | None
    ) -> None:
        self.modules = modules  # name -> module
        self.submodules = submodules
        self.exporter = exporter  # a module whose `__all__` is part of the package's


class LazyPackage(ModuleType):
    """A package that imports a public name when it is first used.

    A function may have the name of the module that defines it (`frazil.spark.read`). The import
    system stores every loaded module as an attribute of its package, which would hide the function:
    `__setattr__` prevents that.
    """

    __lazy__: LazyNames

    def __getattr__(self, name: str) -> Any:
        """Called by Python for names that were not loaded yet."""
        lazy = self.__lazy__
        if name in lazy.modules:
            value = load(lazy.modules[name], name)
        elif name in lazy.submodules:
            return import_module(f"{self.__name__}.{name}")
        elif name == "__all__":
            exported = [] if lazy.exporter is None else load(lazy.exporter, "__all__")
            value = sorted({*lazy.modules, *exported})
        elif lazy.exporter is not None and not name.startswith("_") and name in self.__all__:
            value = load(lazy.exporter, name)
        else:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        super().__setattr__(name, value)
        return value

    @override
    def __setattr__(self, name: str, value: object) -> None:
        if not (isinstance(value, ModuleType) and name in self.__lazy__.modules):
            super().__setattr__(name, value)

    @override
    def __reduce__(self) -> tuple[object, ...]:
        """Pickled by its name, for functions that use it and are sent to workers."""
        return import_module, (self.__name__,)

    @override
    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.__lazy__.submodules, *self.__all__})


def attach(
    package: str,
    names: Mapping[str, Iterable[str]],
    *,
    submodules: Iterable[str] = (),
    exporter: str | None = None,
) -> None:
    """Makes a package, while its `__init__.py` runs, load its public names lazily.

    Args:
        package: its `__name__`.
        names: for each module, the names that it defines.
        submodules: modules of the package that are attributes without having been imported.
        exporter: a module all of whose public names are names of the package, too.
    """
    modules = {name: module for module, defined in names.items() for name in defined}
    attached = sys.modules[package]
    attached.__class__ = LazyPackage
    attached.__dict__["__lazy__"] = LazyNames(modules, frozenset(submodules), exporter)


def names_of(package: str) -> LazyNames:
    """Returns the names of an attached package."""
    names: LazyNames = sys.modules[package].__dict__["__lazy__"]
    return names


class LazyModule(ModuleType):
    """Stands for a module that is imported when an attribute is first used."""

    def __getattr__(self, name: str) -> Any:
        loaded = self.__dict__.get("__loaded__")
        if loaded is not None:  # whole: others may still be importing what is in `sys.modules`
            return getattr(loaded, name)
        value = load(self.__name__, name)
        self.__dict__["__loaded__"] = sys.modules[self.__name__]
        return value


def lazy_module(name: str) -> Any:
    """Returns a stand-in for a module; tell type checkers by an import under TYPE_CHECKING."""
    return LazyModule(name)


def export_all(namespace: dict[str, Any]) -> None:
    """Sets `__all__` of a module that only imports the names that it re-exports.

    A public name is written once there: `from module import name as name`. Type checkers take it
    from that, and must not see an `__all__` that they cannot evaluate.
    """
    namespace["__all__"] = sorted(
        name
        for name, value in namespace.items()
        if not name.startswith("_")
        and not isinstance(value, ModuleType)
        and value is not export_all
    )
