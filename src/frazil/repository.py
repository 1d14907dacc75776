"""A repository, under the name it has in Icechunk. Limits are frazil's own."""

# ruff: noqa: PLC0414 -- a name that is imported `as` itself is re-exported, for type checkers
# ruff: isort: skip_file

from frazil.api.repository import Repository as Repository
from frazil.api.session import (
    IcechunkStore as IcechunkStore,
    Session as Session,
)
from frazil.format.limits import Limits as Limits
from frazil.lazy import export_all
from frazil.twins import AsyncCloseableIterator as AsyncCloseableIterator

export_all(globals())
