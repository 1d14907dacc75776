"""Types of arguments, under the name they have in Icechunk."""

# ruff: noqa: PLC0414 -- a name that is imported `as` itself is re-exported, for type checkers
# ruff: isort: skip_file

from frazil.api.values import CommitMethod as CommitMethod
from frazil.lazy import export_all

export_all(globals())
