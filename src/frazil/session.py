"""A session, under the name it has in Icechunk."""

# ruff: noqa: PLC0414 -- a name that is imported `as` itself is re-exported, for type checkers
# ruff: isort: skip_file

from frazil.api.session import (
    ForkSession as ForkSession,
    IcechunkStore as IcechunkStore,
    Session as Session,
)
from frazil.api.values import SessionMode as SessionMode
from frazil.lazy import export_all

export_all(globals())
