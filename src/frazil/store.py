"""A session as a zarr Store, under the name it has in Icechunk."""

# ruff: noqa: PLC0414 -- a name that is imported `as` itself is re-exported, for type checkers
# ruff: isort: skip_file

from frazil.api.session import IcechunkStore as IcechunkStore
from frazil.lazy import export_all
from frazil.twins import AsyncCloseableIterator as AsyncCloseableIterator

export_all(globals())
