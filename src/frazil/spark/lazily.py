"""The names of `frazil.spark`, loaded when somebody first uses one.

Every Python worker of Spark imports this package on the way to the data source. It needs neither
the SQL parser nor what reads files of all sorts, which take longer to import than a small task
takes to run.

Functions have the names of their modules (`frazil.spark.read` is both), and the import system puts
a module into its package once it is loaded, where it would hide the function. So the package is
a module of a class of its own, which does not let it.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any, override

# Name -> module that has it
NAMES = {
    "IngestResult": "frazil.spark.ingest",
    "JobProgress": "frazil.spark.progress",
    "ReadPlan": "frazil.spark.read",
    "SqlPlan": "frazil.spark.sql",
    "WriteResult": "frazil.spark.write",
    "ingest": "frazil.spark.ingest",
    "plan_read": "frazil.spark.read",
    "plan_sql": "frazil.spark.sql",
    "read": "frazil.spark.read",
    "read_chunks": "frazil.spark.read_chunks",
    "read_table": "frazil.spark.read_table",
    "register": "frazil.spark.register",
    "session": "frazil.spark.session",
    "sql": "frazil.spark.sql",
    "write": "frazil.spark.write",
}


class LazyPackage(ModuleType):
    def __getattr__(self, name: str) -> Any:
        """Called for names that are not there yet."""
        if name not in NAMES:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        found = getattr(import_module(NAMES[name]), name)
        super().__setattr__(name, found)
        return found

    @override
    def __setattr__(self, name: str, value: object) -> None:
        if name in NAMES and isinstance(value, ModuleType):
            return
        super().__setattr__(name, value)

    @override
    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *NAMES})


def make_lazy(package: str) -> None:
    sys.modules[package].__class__ = LazyPackage


make_lazy("frazil.spark")
