"""Entries of the ops log and results of garbage collection, under their names in Icechunk."""

# ruff: noqa: PLC0414 -- a name that is imported `as` itself is re-exported, for type checkers
# ruff: isort: skip_file

from frazil.api.updates import (
    Update as Update,
    UpdateType as UpdateType,
)
from frazil.lazy import export_all
from frazil.maintenance.summaries import GCSummary as GCSummary

export_all(globals())
