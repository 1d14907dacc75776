"""Icechunk repositories in Python: versioned, transactional storage for Zarr arrays.

The public names are listed in `frazil.api`, and loaded when the first of them is used: they need
zarr, which takes longer to import than all the rest. Spark's workers and `frazil --help` import
this package and need none of it.
"""

from typing import TYPE_CHECKING

from frazil.lazy import attach

if TYPE_CHECKING:
    from frazil import config as config
    from frazil import conflicts as conflicts
    from frazil import credentials as credentials
    from frazil import ops as ops
    from frazil import repository as repository
    from frazil import session as session
    from frazil import snapshots as snapshots
    from frazil import storage as storage
    from frazil import store as store
    from frazil import types as types
    from frazil import virtual as virtual
    from frazil.api import *  # noqa: F403 -- all of them are public
    from frazil.compatibility import __version__ as __version__
    from frazil.compatibility import install_as_icechunk as install_as_icechunk

attach(
    __name__,
    {"frazil.compatibility": ["__version__", "install_as_icechunk"]},
    submodules=[
        *("config", "conflicts", "credentials", "ops", "repository", "session", "snapshots"),
        *("storage", "store", "types", "virtual"),
    ],
    exporter="frazil.api",
)
